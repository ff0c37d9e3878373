"""All routes of the API, in the order in which its reference lists them."""

from demur.service.route import ApiRoute
from demur.service.routes.codes import CODE_ROUTES as CODES
from demur.service.routes.decide import DECIDE_ROUTES as DECIDE
from demur.service.routes.decisions import DECISION_ROUTES as DECISIONS
from demur.service.routes.detect import DETECT_ROUTES as DETECT
from demur.service.routes.document import openapi_route
from demur.service.routes.guard import GUARD_ROUTES as GUARD
from demur.service.routes.health import HEALTH_ROUTES as HEALTH
from demur.service.routes.keys import KEY_ROUTES as KEYS
from demur.service.routes.labels import LABEL_ROUTES as LABELS
from demur.service.routes.metrics import METRICS_ROUTES as METRICS
from demur.service.routes.normalize import NORMALIZE_ROUTES as NORMALIZE
from demur.service.routes.respond import RESPOND_ROUTES as RESPOND
from demur.service.routes.stats import STATS_ROUTES as STATS
from demur.service.routes.triage import TRIAGE_ROUTES as TRIAGE

__all__ = ["ROUTES"]

_DESCRIBED_ROUTES: tuple[ApiRoute, ...] = (
    *DECIDE,
    *GUARD,
    *NORMALIZE,
    *DETECT,
    *RESPOND,
    *DECISIONS,
    *LABELS,
    *STATS,
    *TRIAGE,
    *CODES,
    *KEYS,
    *METRICS,
    *HEALTH,
)
ROUTES: tuple[ApiRoute, ...] = (*_DESCRIBED_ROUTES, openapi_route(_DESCRIBED_ROUTES))

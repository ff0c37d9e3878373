"""All routes of the API, in the order in which its reference lists them."""

from demur.service.route import Route
from demur.service.routes.codes import ROUTES as CODES
from demur.service.routes.decide import ROUTES as DECIDE
from demur.service.routes.decisions import ROUTES as DECISIONS
from demur.service.routes.detect import ROUTES as DETECT
from demur.service.routes.document import describing
from demur.service.routes.guard import ROUTES as GUARD
from demur.service.routes.health import ROUTES as HEALTH
from demur.service.routes.keys import ROUTES as KEYS
from demur.service.routes.labels import ROUTES as LABELS
from demur.service.routes.metrics import ROUTES as METRICS
from demur.service.routes.normalize import ROUTES as NORMALIZE
from demur.service.routes.respond import ROUTES as RESPOND
from demur.service.routes.stats import ROUTES as STATS
from demur.service.routes.triage import ROUTES as TRIAGE

__all__ = ["ROUTES"]

_OTHERS: tuple[Route, ...] = (
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
ROUTES: tuple[Route, ...] = (*_OTHERS, describing(_OTHERS))

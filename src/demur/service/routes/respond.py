"""Put refusals into words over HTTP: for a decision, or for a code alone."""

from typing import Annotated, Any

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.respond.audience import Audience
from demur.respond.compose import compose
from demur.respond.views import view
from demur.service.access import Role
from demur.service.call import ApiAnswer, ApiCall, json_answer
from demur.service.problem import ProblemError, invalid_request
from demur.service.route import ApiRoute
from demur.service.routes.shown import require_record

__all__ = ["RESPOND_ROUTES", "Respond", "Worded"]

_Name = Annotated[str, msgspec.Meta(max_length=200)]


class Respond(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The refusal to put into words: a decision by id, or a code with its detail. Not both."""

    decision_id: _Name | None = None
    code: _Name | None = None
    detail: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    audience: Audience = Audience.END_USER
    locale: _Name | None = None
    persona: _Name | None = None
    slots: dict[str, str] = {}


class Worded(msgspec.Struct, frozen=True, kw_only=True):
    """The words, and the view that the audience may see."""

    text: str
    audience: Audience
    locale: str
    view: dict[str, Any]


async def word_refusal(call: ApiCall) -> ApiAnswer:
    """Put a refusal into words for an audience."""
    asked = call.decode_body(Respond)
    if (asked.decision_id is None) == (asked.code is None):
        raise invalid_request(422, "name either `decision_id` or `code`")
    return json_answer(await call.service.run_blocking(_compose_words, call, asked))


def _compose_words(call: ApiCall, body: Respond) -> Worded:
    registry = call.service.gate.registry
    settings: dict[str, Any] = {
        "locale": body.locale or "en",
        "persona": body.persona,
        "slots": body.slots,
        "registry": registry,
    }
    source = _find_source(call, body)
    words = compose(source, audience=body.audience, **settings)
    return Worded(
        text=words.text,
        audience=body.audience,
        locale=words.locale,
        view=view(source, body.audience, **settings),
    )


def _find_source(call: ApiCall, body: Respond) -> DecisionRecord | Refusal:
    if body.decision_id is not None:
        # Words for an operator show the whole record.
        if body.audience is Audience.OPERATOR and not call.caller.has_role(Role.READ):
            raise ProblemError(
                403, ReasonCode.PERMISSION_DENIED, f"this key has no role `{Role.READ}`"
            )
        return require_record(call._replace(path={"decision_id": body.decision_id}))
    assert body.code is not None
    return Refusal.from_code(body.code, body.detail, registry=call.service.gate.registry)


RESPOND_ROUTES = (
    ApiRoute(
        "POST",
        "/v1/respond",
        "respond",
        "Put a refusal into words for an audience",
        word_refusal,
        Role.DECIDE,
        takes=Respond,
        gives=Worded,
        statuses=(404,),
        example={"code": "DESTRUCTIVE_ACTION", "audience": "end_user", "locale": "en"},
    ),
)

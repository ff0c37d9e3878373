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
from demur.service.call import Answer, Call, answer
from demur.service.problem import ProblemError, invalid
from demur.service.route import Route
from demur.service.routes.shown import record_named

__all__ = ["ROUTES", "Respond", "Worded"]

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


async def respond(call: Call) -> Answer:
    """Put a refusal into words for an audience."""
    asked = call.read(Respond)
    if (asked.decision_id is None) == (asked.code is None):
        raise invalid(422, "name either `decision_id` or `code`")
    return answer(await call.service.work(_worded, call, asked))


def _worded(call: Call, asked: Respond) -> Worded:
    registry = call.service.gate.registry
    settings: dict[str, Any] = {
        "locale": asked.locale or "en",
        "persona": asked.persona,
        "slots": asked.slots,
        "registry": registry,
    }
    source = _source(call, asked)
    words = compose(source, audience=asked.audience, **settings)
    return Worded(
        text=words.text,
        audience=asked.audience,
        locale=words.locale,
        view=view(source, asked.audience, **settings),
    )


def _source(call: Call, asked: Respond) -> DecisionRecord | Refusal:
    if asked.decision_id is not None:
        # Words for an operator show the whole record.
        if asked.audience is Audience.OPERATOR and not call.caller.may(Role.READ):
            raise ProblemError(
                403, ReasonCode.PERMISSION_DENIED, f"this key has no role `{Role.READ}`"
            )
        return record_named(call._replace(path={"decision_id": asked.decision_id}))
    assert asked.code is not None
    return Refusal.of(asked.code, asked.detail, registry=call.service.gate.registry)


ROUTES = (
    Route(
        "POST",
        "/v1/respond",
        "respond",
        "Put a refusal into words for an audience",
        respond,
        Role.DECIDE,
        takes=Respond,
        gives=Worded,
        statuses=(404,),
        example={"code": "DESTRUCTIVE_ACTION", "audience": "end_user", "locale": "en"},
    ),
)

"""One decision, three views. What an audience may not see is never put in, so nothing leaks."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from demur.codes.registry import Registry
from demur.model.decision import Decision
from demur.model.record import DecisionRecord
from demur.respond.audience import Audience, audience_of
from demur.respond.case import Case, Source, case_of
from demur.respond.graceful import GracefulRefusal
from demur.respond.loading import builtin_templates
from demur.respond.locales import FALLBACK
from demur.respond.template import Templates
from demur.respond.words import put_in_words

__all__ = ["audience_text", "see", "view"]

_FOR_PEOPLE = (
    *("text", "acknowledgment", "boundary", "reason", "alternatives", "engagement"),
    *("what_can_be_done_now", "how_to_proceed", "missing", "constraints", "resources", "locale"),
)
_FOR_AGENTS = ("decision_output", "decision_id", "attempts_left", "obligations")


def view(
    source: Source,
    audience: str,
    *,
    locale: str | None = FALLBACK,
    templates: Templates | None = None,
    persona: str | None = None,
    slots: Mapping[str, object] | None = None,
    resources: Iterable[Any] = (),
    registry: Registry | None = None,
) -> dict[str, Any]:
    """Return the fields of a decision, a record or a refusal that an audience may see, as JSON.

    The settings are those of `compose`.

    Raises:
        InputError: Nothing was refused, or there is no such audience or slot.
    """
    reader = audience_of(audience)
    case = case_of(source, registry)
    book = (builtin_templates() if templates is None else templates).book(locale)
    given = {**(slots or {}), **({} if persona is None else {"persona": persona})}
    words = put_in_words(case, book, slots=given, resources=resources)
    return see(source, case, words, reader)


def see(source: Source, case: Case, words: GracefulRefusal, audience: Audience) -> dict[str, Any]:
    """Return the view for an audience, given the words."""
    if audience is Audience.OPERATOR:
        return {"words": _for_people(words), **_for_agents(source, case), **_all_of(source)}
    return _for_agents(source, case) if audience is Audience.AGENT else _for_people(words)


def _for_people(words: GracefulRefusal) -> dict[str, Any]:
    # INVARIANT: people see words alone: no code, rule, id or evidence beyond the slots.
    return {name: _plain(getattr(words, name)) for name in _FOR_PEOPLE}


def _for_agents(source: Source, case: Case) -> dict[str, Any]:
    """Return the fields that a program acts on: the code, the class and the next step."""
    seen: dict[str, Any] = {
        "code": case.code,
        "refusal_class": case.group.refusal_class,
        "decided": case.group.decided,
        "advice": case.next_step,
        "retry_scope": case.retry_scope,
        "missing": case.missing,
        "constraints": case.constraints,
        "line": case.line,
    }
    wait = case.evidence.get("retry_after")
    if isinstance(wait, int | float) and not isinstance(wait, bool):
        seen["retry_after"] = wait
    if isinstance(source, Decision | DecisionRecord):
        seen["verdict"] = source.verdict
        seen["reason_codes"] = source.reason_codes
        for name in ("reason", "what_can_be_done_now", "how_to_proceed", "next_step"):
            seen[name] = getattr(source, name)
    for name in _FOR_AGENTS:
        if getattr(source, name, None) is not None:
            seen[name] = getattr(source, name)
    return {name: _plain(value) for name, value in seen.items()}


def _all_of(source: Source) -> dict[str, Any]:
    if isinstance(source, DecisionRecord):
        return {key: source[key] for key in source}
    return {key: _plain(getattr(source, key)) for key in source.__struct_fields__}


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def audience_text(source: Source, case: Case, words: GracefulRefusal, audience: Audience) -> str:
    """Return the text for an audience: words, the refusal line and facts, or both."""
    if audience is Audience.END_USER:
        return words.text
    seen = see(source, case, words, audience)
    seen.pop("words", None)
    facts = "\n".join([seen.pop("line"), *map(_fact, seen.items())])
    return facts if audience is Audience.AGENT else f"{words.text}\n\n{facts}"


def _fact(pair: tuple[str, Any]) -> str:
    name, value = pair
    shown = value if isinstance(value, str) and value.isprintable() else _json(value)
    return f"{name}: {shown}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

"""One decision, three views. What an audience may not see is never put in, so nothing leaks."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from demur.codes.registry import Registry
from demur.model.decision import Decision
from demur.model.record import DecisionRecord
from demur.respond.audience import Audience, parse_audience
from demur.respond.case import RefusalCase, ComposeSource, make_case
from demur.respond.graceful import GracefulRefusal
from demur.respond.loading import builtin_templates
from demur.respond.locales import FALLBACK_LOCALE
from demur.respond.template import Templates
from demur.respond.words import compose_words

__all__ = ["render_text", "render_for", "view"]

_FOR_PEOPLE = (
    *("text", "acknowledgment", "boundary", "reason", "alternatives", "engagement"),
    *("what_can_be_done_now", "how_to_proceed", "missing", "constraints", "resources", "locale"),
)
_FOR_AGENTS = ("decision_output", "decision_id", "attempts_left", "obligations")


def view(
    source: ComposeSource,
    audience: str,
    *,
    locale: str | None = FALLBACK_LOCALE,
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
    reader = parse_audience(audience)
    case = make_case(source, registry)
    book = (builtin_templates() if templates is None else templates).for_locale(locale)
    given = {**(slots or {}), **({} if persona is None else {"persona": persona})}
    words = compose_words(case, book, slots=given, resources=resources)
    return render_for(source, case, words, reader)


def render_for(
    source: ComposeSource, case: RefusalCase, words: GracefulRefusal, audience: Audience
) -> dict[str, Any]:
    """Return the view for an audience, given the words."""
    if audience is Audience.OPERATOR:
        return {"words": _people_view(words), **_agent_view(source, case), **_source_fields(source)}
    return _agent_view(source, case) if audience is Audience.AGENT else _people_view(words)


def _people_view(words: GracefulRefusal) -> dict[str, Any]:
    # INVARIANT: people see words alone: no code, rule, id or evidence beyond the slots.
    return {name: _to_json_value(getattr(words, name)) for name in _FOR_PEOPLE}


def _agent_view(source: ComposeSource, case: RefusalCase) -> dict[str, Any]:
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
    return {name: _to_json_value(value) for name, value in seen.items()}


def _source_fields(source: ComposeSource) -> dict[str, Any]:
    if isinstance(source, DecisionRecord):
        return {key: source[key] for key in source}
    return {key: _to_json_value(getattr(source, key)) for key in source.__struct_fields__}


def _to_json_value(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def render_text(
    source: ComposeSource, case: RefusalCase, words: GracefulRefusal, audience: Audience
) -> str:
    """Return the text for an audience: words, the refusal line and facts, or both."""
    if audience is Audience.END_USER:
        return words.text
    seen = render_for(source, case, words, audience)
    seen.pop("words", None)
    facts = "\n".join([seen.pop("line"), *map(_fact_line, seen.items())])
    return facts if audience is Audience.AGENT else f"{words.text}\n\n{facts}"


def _fact_line(pair: tuple[str, Any]) -> str:
    name, value = pair
    shown = value if isinstance(value, str) and value.isprintable() else _to_json_text(value)
    return f"{name}: {shown}"


def _to_json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()

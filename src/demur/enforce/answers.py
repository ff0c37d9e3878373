"""The text that a person reads instead of an answer: short, without blame, with a next step."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import asdict

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Obligation
from demur.guards.input.crisis import find_help_resources
from demur.model.finding import Finding
from demur.model.refusal import Refusal
from demur.respond.compose import render

__all__ = ["FAILURE_TEXT", "refusal_text", "help_lines", "append_resources"]

_LANGUAGE = "en"
FAILURE_TEXT = "I couldn't get an answer just now: the hold-up is on our side. Please try again."


def refusal_text(refusal: Refusal, resources: Iterable[str] = (), locale: str | None = None) -> str:
    """Return the text to show for a refusal.

    If there are `resources`, a person may be in danger: the crisis text comes first, whatever
    else was refused.
    """
    lines = tuple(resources)
    if not lines:
        return render(refusal, locale=locale or _LANGUAGE)
    if not any("emergency" in line for line in lines):
        lines = (*lines, _format_resource(asdict(find_help_resources(None)[0])))
    crisis = Refusal.from_code(ReasonCode.CRISIS_ESCALATION)
    return render(crisis, locale=locale or _LANGUAGE, resources=lines)


def help_lines(
    findings: Iterable[Finding], obligations: Iterable[str] = (), locale: str | None = None
) -> tuple[str, ...]:
    """Return the help lines that the answer must carry; empty unless a person is in danger.

    They are those that a guard named, or else those of the locale.
    """
    crisis = [found for found in findings if found.code == ReasonCode.CRISIS_ESCALATION]
    if not crisis and Obligation.CRISIS_RESOURCES not in set(obligations):
        return ()
    named = dict.fromkeys(line for found in crisis for line in _named_resources(found.evidence))
    usual = (_format_resource(asdict(resource)) for resource in find_help_resources(locale))
    return tuple(named) or tuple(usual)


def _named_resources(evidence: Mapping[str, Any]) -> Iterator[str]:
    listed = evidence.get("resources", ())
    for item in listed if isinstance(listed, list | tuple) else ():
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            yield _format_resource(item)


def _format_resource(resource: Mapping[str, Any]) -> str:
    place = f" ({resource['country']})" if resource.get("country") else ""
    return f"{resource.get('name', '')}{place}: {resource.get('contact', '')}"


def append_resources(text: str, resources: Iterable[str]) -> str:
    """Return an answer with the help lines below it."""
    lines = [f"- {line}" for line in resources]
    return "\n".join([text, "", *lines]) if lines else text

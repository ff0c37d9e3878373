"""What a person reads instead of an answer: plain and short, without blame, with a way on."""

from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Any

from msgspec.structs import asdict

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Obligation, RefusalClass, Surface
from demur.guards.input.crisis import resources_for
from demur.model.finding import Finding
from demur.model.refusal import Refusal

__all__ = ["FAILED", "answer_for", "help_lines", "with_resources"]

FAILED = "I couldn't get an answer just now. It isn't because of what you asked: please try again."
_CRISIS = (
    "It sounds like things are very hard right now, and you don't have to go through this alone. "
    "There are people who will listen, at any hour:"
)
_DANGER = "If somebody is in danger at this moment, please call the local emergency number."
_OUTPUT = "I can't share the answer I was about to give. Shall we try it another way?"
_OTHERWISE = "I can't help with that. Is there something else I can do for you?"
_UNCHECKED = "I can't check this safely at the moment, so I'd rather not answer. Please try again."
_PERSON = "Somebody has to look at this before I can go on. Is there something else meanwhile?"


def answer_for(refusal: Refusal, resources: Iterable[str] = ()) -> str:
    """Return the words to say instead of what was refused."""
    lines = list(resources)
    if lines:
        said = any("emergency" in line for line in lines)
        return "\n".join([_CRISIS, *(f"- {line}" for line in lines), *([] if said else [_DANGER])])
    if refusal.code == ReasonCode.RATE_LIMIT:
        return _wait(refusal.evidence)
    if not refusal.decided:
        return _UNCHECKED
    if refusal.refusal_class is RefusalClass.WORKFLOW_BLOCK:
        return _PERSON
    return _OUTPUT if refusal.surface is Surface.OUTPUT else _OTHERWISE


def _wait(evidence: Mapping[str, Any]) -> str:
    seconds = evidence.get("retry_after")
    if not isinstance(seconds, int | float):
        return "That was a bit much at once. Please try again later."
    count = max(1, ceil(seconds))
    return f"That was a bit much at once. Please try again in {count} second{'s' * (count != 1)}."


def help_lines(
    findings: Iterable[Finding], obligations: Iterable[str] = (), locale: str | None = None
) -> tuple[str, ...]:
    """Return the help lines that the answer must carry: none, unless somebody is in danger.

    They are those that a guard named, or else those of the locale.
    """
    crisis = [found for found in findings if found.code == ReasonCode.CRISIS_ESCALATION]
    if not crisis and Obligation.CRISIS_RESOURCES not in set(obligations):
        return ()
    named = dict.fromkeys(line for found in crisis for line in _named(found.evidence))
    usual = (_line(asdict(resource)) for resource in resources_for(locale))
    return tuple(named) or tuple(usual)


def _named(evidence: Mapping[str, Any]) -> Iterator[str]:
    listed = evidence.get("resources", ())
    for item in listed if isinstance(listed, list | tuple) else ():
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            yield _line(item)


def _line(resource: Mapping[str, Any]) -> str:
    place = f" ({resource['country']})" if resource.get("country") else ""
    return f"{resource.get('name', '')}{place}: {resource.get('contact', '')}"


def with_resources(text: str, resources: Iterable[str]) -> str:
    """Return an answer that was given with the help lines below it."""
    lines = [f"- {line}" for line in resources]
    return "\n".join([text, "", *lines]) if lines else text

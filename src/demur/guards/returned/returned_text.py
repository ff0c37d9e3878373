"""Look at text that comes back to the model: it is data, and gives no orders.

What both surfaces of returned text share, tools and retrieval: orders to the assistant, fake
turns of a chat, links that carry data away, and text that a reader does not see. An order
that is only talked about, in quotes or as an example of an attack, is put on record. What is
hidden from the reader counts more: there, even a hint to the assistant is held.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from demur.canonical import digest
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputTypeError
from demur.guards.returned.hidden import HiddenPart, find_hidden_parts, find_invisible_runs
from demur.guards.text_rules.mentions import flooded_rules, is_example, is_mentioned
from demur.guards.text_rules.rule import TextRule, RuleSet
from demur.guards.text_rules.rules import builtin_rules
from demur.guards.text_rules.text import TextHit, hit_finding, scan_text
from demur.model.finding import Action, Finding, Span

__all__ = ["RETURNED_CODES", "finding_order", "check_returned_text", "builtin_returned_rules"]

RETURNED_CODES: tuple[str, ...] = (ReasonCode.CONTEXT_INJECTION, ReasonCode.EXFILTRATION_RISK)

# Rules for a user's text that hold for a document too.
_SHARED = ("OVERRIDE_", "FAKE_ROLE_", "LEAK_PROMPT", "LEAK_ABOVE", "LEAK_OTHER_", "EVADE_OVERSIGHT")
# Rules that count only in hidden text.
_ONLY_HIDDEN = "HIDDEN_"
_STRICTER = {
    Action.WARN: Action.ESCALATE,
    Action.ESCALATE: Action.BLOCK,
    Action.BLOCK: Action.BLOCK,
}
_INVISIBLE = {
    "tags": ("text in characters that nobody can see", Action.BLOCK),
    "direction": ("characters that turn the direction of writing", Action.WARN),
    "widthless": ("a run of characters without a width", Action.WARN),
}
_MAX_EXCERPT = 100


@cache
def builtin_returned_rules() -> RuleSet:
    """Return the built-in rules for returned text: its own, and those shared with users' text."""
    own = builtin_rules(Surface.TOOL_RESULT)
    shared = [rule for rule in builtin_rules(Surface.INPUT).rules if rule.id.startswith(_SHARED)]
    rules = (*own.rules, *map(_as_injection, shared))
    name = digest([own.digest, [rule.id for rule in shared], builtin_rules(Surface.INPUT).digest])
    return RuleSet(surface=Surface.TOOL_RESULT, rules=rules, digest=name, where=own.where)


def check_returned_text(
    text: str, source: str, rules: RuleSet | None, surface: Surface
) -> Iterator[Finding]:
    """Yield the findings in returned text, in the order of spans.

    Raises:
        InputError: The text is too long to be looked at in one piece.
    """
    if not isinstance(text, str):
        raise InputTypeError.wrong_type("returned text", "a string", text)
    rules = builtin_returned_rules() if rules is None else rules
    found = list(_invisible_findings(text, source, surface))
    if hits := scan_text(text, rules):
        parts = _merge_parts(find_hidden_parts(text))
        many = flooded_rules(hits)
        if any(rule.startswith(_ONLY_HIDDEN) for rule in many):
            # Hits in visible text used up the limit: scan the hidden parts by themselves.
            hits = [hit for hit in hits if not _needs_hiding(hit)]
            hits += filter(_needs_hiding, scan_text(_blank_visible(text, parts), rules))
        for hit in hits:
            place = _enclosing_part(hit, parts)
            if place is not None or not _needs_hiding(hit):
                talk = hit.rule.id not in many and _is_mention(text, hit)
                found.append(
                    _annotate_finding(
                        hit_finding(hit, surface), text, source, place, mentioned=talk
                    )
                )
    yield from sorted(found, key=finding_order)


def _as_injection(rule: TextRule) -> TextRule:
    return msgspec.structs.replace(rule, code=ReasonCode.CONTEXT_INJECTION)


def _annotate_finding(
    finding: Finding, text: str, source: str, place: HiddenPart | None, *, mentioned: bool
) -> Finding:
    """Return the finding with its source, stricter if hidden and milder if only mentioned."""
    assert finding.span is not None
    excerpt = " ".join(text[finding.span.start : finding.span.end].split())[:_MAX_EXCERPT]
    evidence: dict[str, Any] = {
        **finding.evidence,
        "source": source,
        "excerpt": "".join(filter(str.isprintable, excerpt)),
    }
    action = finding.action
    if place is not None:
        evidence["hidden"] = place.kind
        action = _STRICTER[action]
    elif mentioned:
        evidence["mentioned"] = True
        action = Action.WARN
    return msgspec.structs.replace(finding, evidence=evidence, action=action)


def _needs_hiding(hit: TextHit) -> bool:
    return hit.rule.id.startswith(_ONLY_HIDDEN)


def _is_mention(text: str, hit: TextHit) -> bool:
    return is_mentioned(text, hit.start, hit.end) or is_example(text, hit.start, hit.end)


def _blank_visible(text: str, parts: Iterable[HiddenPart]) -> str:
    """Return the hidden parts in their places, and blanks around them."""
    pieces: list[str] = []
    done = 0
    for _, start, end in parts:
        pieces += [" " * (start - done), text[start:end]]
        done = end
    return "".join(pieces)


def _merge_parts(parts: Iterable[HiddenPart]) -> list[HiddenPart]:
    """Return the parts in order, overlapping ones merged."""
    apart: list[HiddenPart] = []
    for part in sorted(parts, key=lambda part: part.start):
        if apart and part.start < apart[-1].end:
            apart[-1] = apart[-1]._replace(end=max(part.end, apart[-1].end))
        else:
            apart.append(part)
    return apart


def _enclosing_part(hit: TextHit, parts: Sequence[HiddenPart]) -> HiddenPart | None:
    index = bisect_right(parts, hit.start, key=lambda part: part.start) - 1
    return parts[index] if index >= 0 and hit.start < parts[index].end else None


def _invisible_findings(text: str, source: str, surface: Surface) -> Iterator[Finding]:
    for kind, start, end in find_invisible_runs(text):
        detail, action = _INVISIBLE[kind]
        yield Finding(
            code=ReasonCode.CONTEXT_INJECTION,
            surface=surface,
            span=Span(start=start, end=end),
            detail=detail,
            evidence={"rule": "INVISIBLE_TEXT", "source": source, "hidden": kind},
            action=action,
        )


def finding_order(finding: Finding) -> tuple[int, int, str]:
    """Return what findings are ordered by: their spans, and then their rules."""
    assert finding.span is not None
    return finding.span.start, finding.span.end, str(finding.evidence["rule"])

"""The tool-result guard: orders in what a tool returned. Codes: see `CODES`.

A result is data. Text in it that speaks to the assistant, poses as a turn of the chat, hides
from the reader or carries data away in a link is an indirect injection. An order that is only
talked about, in quotes or as an example of an attack, is recorded. Text that is hidden from the
reader counts more: there, even a hint to the assistant is held. The retrieval guard shares this
check.

Limits: a false statement that gives no order (`the capital is X`) is not seen. Files that are
meant to instruct agents are recorded where they speak to them, and held where they ask for what
only an attacker needs. Style sheets are not read, so text that only they hide counts as
visible; so does text in the colour of its background, other than white.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from operator import attrgetter
from typing import NamedTuple

import msgspec

from demur.canonical import digest
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputTypeError
from demur.guards.personal_data import find_personal_data
from demur.guards.rule_matching import (
    TextHit,
    finding_order,
    flooded_rules,
    hit_finding,
    is_example,
    is_mentioned,
    scan_text,
)
from demur.guards.text_rules import RuleSet, builtin_rules
from demur.model.finding import Action, Finding, Span

# A longer element is a part of the page, not hidden text.
_MAX_ELEMENT = 4_000
_ELEMENT = re.compile(
    r"<([a-z][a-z0-9]{0,15})\b[^<>]{0,600}?(?:display\s{0,3}:\s{0,3}none|visibility\s{0,3}:\s{0,3}hidden"
    r"|font-size\s{0,3}:\s{0,3}0(?![.\d]*[1-9])|opacity\s{0,3}:\s{0,3}0(?![.\d]*[1-9])"
    r"|(?<!-)color\s{0,3}:\s{0,3}(?:white|#fff(?:fff)?|transparent)\b|aria-hidden\s{0,3}=\s{0,3}[\"']?true"
    r"|\shidden(?=[\s>=]))[^<>]{0,600}>",
    re.IGNORECASE,
)
_STAND_IN = re.compile(
    r"""\b(?:alt|title|aria-label|content|placeholder)\s{0,3}=\s{0,3}(?:"([^"<>]{12,2000})"|'([^'<>]{12,2000})')"""
    r"|!\[([^\[\]]{12,1000})\]\("
    r"|\[//\]:\s{0,3}#\s{0,3}[(\"']([^\n]{4,2000})",
    re.IGNORECASE,
)
# Tag characters spell out an invisible text, unless they belong to a flag; overrides change
# the direction of writing; the rest has no width.
_TAGS = re.compile(
    "(?<!\U0001f3f4)(?<![\U000e0020-\U000e007f])[\U000e0001\U000e0020-\U000e007f]{2,}"
)
_OVERRIDES = re.compile("[\u202d\u202e]")
_WIDTHLESS = re.compile("[\u200b\u2060-\u2064\ufeff]{4,}")


_part_start = attrgetter("start")


class HiddenPart(NamedTuple):
    """`text[start:end]`, and the kind of place that hides it."""

    kind: str
    start: int
    end: int


def find_hidden_parts(text: str) -> Iterator[HiddenPart]:
    """Yield the parts that a reader of the document does not see."""
    if "<" in text:
        start = text.find("<!--")
        while start >= 0:
            closed = text.find("-->", start + 4)
            end = closed if closed >= 0 else len(text)
            yield HiddenPart("comment", start + 4, end)
            start = text.find("<!--", end + 3)
        for element in _ELEMENT.finditer(text):
            closed = text.find(f"</{element[1]}", element.end(), element.end() + _MAX_ELEMENT)
            end = closed if closed >= 0 else min(len(text), element.end() + _MAX_ELEMENT)
            yield HiddenPart("element", element.end(), end)
    for found in _STAND_IN.finditer(text):
        group = found.lastindex or 0
        yield HiddenPart("stand-in", found.start(group), found.end(group))


def find_invisible_runs(text: str) -> Iterator[HiddenPart]:
    """Yield runs of invisible characters that ordinary writing does not have."""
    if text.isascii():
        return
    for kind, pattern in (("tags", _TAGS), ("direction", _OVERRIDES), ("widthless", _WIDTHLESS)):
        for found in pattern.finditer(text):
            yield HiddenPart(kind, found.start(), found.end())


RETURNED_CODES: tuple[str, ...] = (ReasonCode.CONTEXT_INJECTION, ReasonCode.EXFILTRATION_RISK)

# Rules for a user's text that hold for a document too.
_SHARED = ("OVERRIDE_", "FAKE_ROLE_", "LEAK_PROMPT", "LEAK_ABOVE", "LEAK_OTHER_", "EVADE_OVERSIGHT")
# Rules that count only in hidden text.
_ONLY_HIDDEN = "HIDDEN_"
_STRICTER = {Action.WARN: Action.ESCALATE, Action.ESCALATE: Action.BLOCK}
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
    injections = (msgspec.structs.replace(r, code=ReasonCode.CONTEXT_INJECTION) for r in shared)
    rules = (*own.rules, *injections)
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
            index = bisect_right(parts, hit.start, key=_part_start) - 1
            place = parts[index] if index >= 0 and hit.start < parts[index].end else None
            if place is not None or not _needs_hiding(hit):
                span = (hit.start, hit.end)
                talk = is_mentioned(text, *span) or is_example(text, *span)
                mentioned = talk and hit.rule.id not in many
                finding = hit_finding(hit, surface)
                found.append(_annotate_finding(finding, text, source, place, mentioned=mentioned))
    yield from sorted(found, key=finding_order)


def _annotate_finding(
    finding: Finding, text: str, source: str, place: HiddenPart | None, *, mentioned: bool
) -> Finding:
    """Return the finding with its source, stricter if hidden and milder if only mentioned."""
    assert finding.span is not None
    excerpt = " ".join(text[finding.span.start : finding.span.end].split())[:_MAX_EXCERPT]
    shown = "".join(filter(str.isprintable, excerpt))
    evidence = {**finding.evidence, "source": source, "excerpt": shown}
    action = finding.action
    if place is not None:
        evidence["hidden"], action = place.kind, _STRICTER.get(action, Action.BLOCK)
    elif mentioned:
        evidence["mentioned"], action = True, Action.WARN
    return msgspec.structs.replace(finding, evidence=evidence, action=action)


def _needs_hiding(hit: TextHit) -> bool:
    return hit.rule.id.startswith(_ONLY_HIDDEN)


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
    for part in sorted(parts, key=_part_start):
        if apart and part.start < apart[-1].end:
            apart[-1] = apart[-1]._replace(end=max(part.end, apart[-1].end))
        else:
            apart.append(part)
    return apart


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


SURFACE = Surface.TOOL_RESULT
CODES: tuple[str, ...] = (*RETURNED_CODES, ReasonCode.PII_DETECTED)


class ToolResult(NamedTuple):
    """The text that a tool returned, and the tool's name, where known."""

    text: str
    tool: str = "tool"


class ToolResultConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the tool-result guard.

    `rules` replaces the built-in ones. `personal` is the action for certain personal data;
    None looks for none.
    """

    rules: RuleSet | None = None
    personal: Action | None = Action.WARN


_DEFAULT = ToolResultConfig()


def check(event: ToolResult, config: ToolResultConfig = _DEFAULT) -> Iterator[Finding]:
    """Yield the findings in a tool's result, in the order of spans."""
    found = list(check_returned_text(event.text, event.tool, config.rules, SURFACE))
    found += find_personal_data(event.text, config.personal, SURFACE)
    yield from sorted(found, key=finding_order)

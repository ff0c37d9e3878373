"""The tool-result guard: orders in what a tool returned. Codes: see `CODES`.

A result is data. Text in it that gives orders to the assistant, poses as a turn of the chat,
hides from the reader or carries data away in a link is an indirect injection. An order that is
only talked about, in quotes or as an example of an attack, is recorded; so are the words of
prompts and chat templates in source code. Text that is hidden from the reader counts more: there,
even a word to the assistant is held. The retrieval guard shares this check.

Limits: a false statement that gives no order (`the capital is X`) is not seen. Files that are
meant to instruct agents are recorded where they speak to them, and held where they ask for what
only an attacker needs. In source code and fences, orders that prompts give as well are only
recorded. Style sheets are not read, so text that only they hide counts as visible; so does text
in the colour of its background, other than white.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from operator import attrgetter, itemgetter
from typing import Literal, NamedTuple

import msgspec

from demur.canonical import digest
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputTypeError
from demur.guards.input import crisis_evidence
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
from demur.guards.static.source_text import split_names
from demur.guards.text_rules import RuleSet, builtin_rules
from demur.model.finding import Action, Finding, Span

# A longer element is a part of the page, not hidden text.
_MAX_ELEMENT = 4_000
_QUOTES = frozenset("\"'`")
_ELEMENT = re.compile(
    r"<([a-z][a-z0-9]{0,15})\b[^<>]{0,600}?(?:display\s{0,3}:\s{0,3}none|visibility\s{0,3}:\s{0,3}hidden"
    r"|font-size\s{0,3}:\s{0,3}(?:0(?![.\d]*[1-9])|[01](?:\.\d{1,4})?p[xt]\b)|opacity\s{0,3}:\s{0,3}0(?![.\d]*[1-9])"
    r"|(?:left|top|text-indent)\s{0,3}:\s{0,3}-\d{3,}|(?<!-)color\s{0,3}:\s{0,3}(?:white|#fff(?:fff)?|transparent)\b|aria-hidden\s{0,3}=\s{0,3}[\"']?true"
    r"|\shidden(?=[\s>=]))[^<>]{0,600}>",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(
    r"""\b(?:alt|title|aria-label|content)\s{0,3}=\s{0,3}(?:"([^"<>]{12,2000})"|'([^'<>]{12,2000})')""",
    re.IGNORECASE,
)
# An attribute counts inside a tag only: keyword arguments of code look the same.
_MAX_TAG = 1_000
_MAX_TAG_STARTS = 4
_TAG_START = re.compile(
    r"""<[a-z](?:[\w\s:@./=*#%&?!+,~$|-]|"[^"]*"|'[^']*'|\{[^{}]*\})*[\s/"']\Z""", re.IGNORECASE
)
_STAND_IN = re.compile(
    r"!\[([^\[\]]{12,1000})\]\(|\[//\]:\s{0,3}#\s{0,3}[(\"']([^\n]{4,2000})", re.IGNORECASE
)
# Tag characters spell out an invisible text, unless they belong to a flag; overrides change
# the direction of writing; the rest has no width.
_TAGS = re.compile(
    "(?<!\U0001f3f4)(?<![\U000e0020-\U000e007f])[\U000e0001\U000e0020-\U000e007f]{2,}"
)
_OVERRIDES = re.compile("[\u202d\u202e]")
_WIDTHLESS = re.compile("[\u200b\u2060-\u2064\ufeff]{4,}")


# Lines that only programs have.
_CODE_LINE = re.compile(
    r"^[ \t]*(?:(?:async )?def \w+\(|class \w+[(:{ ]|import [\w.{*]|from [\w.]+ import "
    r"|return\b.*[\w)\]}\"';]$|(?:if|elif|for|while|with|try|except|else)\b.{0,200}:\s*(?:#.*)?$"
    r"|(?:if|for|while|switch|catch) ?\(.*[{)]$"
    r"|(?:export )?(?:const|let|var|function|async function|interface|type|enum) \w+"
    r"|\w[\w.\[\]]* ?[+|]?= ?[\w\"'\[({@-].*|[\w.]+\(.*\)[;,]?$|@\w[\w.]*(?:\(|$)"
    r"|#(?:include|define|ifdef|endif)\b|\}[;,)]*$|raise \w+|assert )",
    re.MULTILINE,
)
_FENCE = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_INLINE_CODE = re.compile(r"(?<!`)(`{1,2})(?!`)[^`\n]{1,400}(?<!`)\1(?!`)")
_HTML_PAGE = re.compile(r"<(?:!doctype|html|head|body)\b", re.IGNORECASE)
# The head of a skill or an agent's file, which says what its reader is.
_AGENT_HEAD = re.compile(r"\s*---[ \t]*\n((?:[^\n]{0,600}\n){1,20}?)---[ \t]*\n")
_HEAD_KEYS = ("name:", "description:")
_CODE_REACH = 600
_WIDE_CODE_REACH = 8_000
_MIN_CODE_LINES = 3
# Where a sentence begins, and how near to the end of a text it is the last thing said.
_SENTENCE_ENDS = re.compile(r"[.!?:;>)\]}|\u201d\u3002\uff01\uff1f]\s*\Z")
# Comments, quotes and items of lists.
_MARKED_LINE = re.compile(r"\s*(?:#|//|/?\*|--|\"|'|`|>|\||- |\d+[.)] )")
_TEMPLATE = re.compile(r"\{\{|\{%|<instructions>")
_LONG_QUOTES = ('"""', "'''", "`")
_MAX_EDGE = 500
# A task belongs to its document if they share a word, other than short ones and those of any task.
_TASK_RULE = "EDGE_TASK"
_WORD = re.compile(r"[^\W\d_]{5,}")
_STEM = 5
_MIN_MATTER = 5
_TASK_WORDS = frozenset(
    word[:_STEM]
    for word in split_names(
        "write create design implement develop build generate construct function program script"
        " query algorithm snippet python javascript using which takes returns given string number"
        " numbers value values integer input output about their there these those would should"
        " could other between through please provide following describe explain suggest recommend"
        " ideas examples story short letter three seven write words people every after before"
        " first where while"
    )
)
# What stands before `ignore` in a comment for a checker of programs.
_LINT_MARK = re.compile(r"(?:\btype|lint|mypy|noqa|pragma|pyright|prettier|coverage)[: -]{1,2}\Z")
_MAX_MARK = 12

_part_start = attrgetter("start")
_span_start = itemgetter(0)


class HiddenPart(NamedTuple):
    """`text[start:end]`, and the kind of place that hides it."""

    kind: str
    start: int
    end: int


def find_hidden_parts(text: str) -> Iterator[HiddenPart]:
    """Yield the parts that a reader of the document does not see.

    A fence or inline code of Markdown shows its marks; a page of HTML has neither.
    """
    parts = _find_marked_parts(text)
    if ("`" not in text and "~~~" not in text) or _HTML_PAGE.search(text):
        yield from parts
        return
    shown = _find_shown_code(text)
    for part in parts:
        index = bisect_right(shown, part.start, key=_span_start) - 1
        if index < 0 or part.end > shown[index][1]:
            yield part


def _find_shown_code(text: str) -> list[tuple[int, int]]:
    """Return the places of closed fences, and of inline code in the lines outside them."""
    fences = [match.start() for match in _FENCE.finditer(text)]
    pairs = list(zip(fences[::2], fences[1::2], strict=False))
    inline: list[tuple[int, int]] = []
    for match in _INLINE_CODE.finditer(text):
        index = bisect_right(pairs, match.start(), key=_span_start) - 1
        if index < 0 or match.start() >= pairs[index][1]:
            inline.append(match.span())
    return sorted((*pairs, *inline))


def _find_marked_parts(text: str) -> Iterator[HiddenPart]:
    if "<" in text:
        start = text.find("<!--")
        while start >= 0:
            closed = text.find("-->", start + 4)
            end = closed if closed >= 0 else min(len(text), start + 4 + _MAX_ELEMENT)
            # A quoted mark is a word of a program; an open comment ends with its page.
            if closed >= 0 or text[start - 1 : start] not in _QUOTES:
                yield HiddenPart("comment", start + 4, end)
            start = text.find("<!--", end + 3)
        for element in _ELEMENT.finditer(text):
            closed = text.find(f"</{element[1]}", element.end(), element.end() + _MAX_ELEMENT)
            end = closed if closed >= 0 else min(len(text), element.end() + _MAX_ELEMENT)
            yield HiddenPart("element", element.end(), end)
        for found in _ATTRIBUTE.finditer(text):
            if _is_in_tag(text, found.start()):
                group = found.lastindex or 0
                yield HiddenPart("stand-in", found.start(group), found.end(group))
    for found in _STAND_IN.finditer(text):
        group = found.lastindex or 0
        yield HiddenPart("stand-in", found.start(group), found.end(group))


def _is_in_tag(text: str, place: int) -> bool:
    """Return whether a tag opens before `place` and does not close there."""
    first, start = max(0, place - _MAX_TAG), place
    for _ in range(_MAX_TAG_STARTS):
        start = text.rfind("<", first, start)
        if start < 0:
            return False
        if _TAG_START.match(text[start:place]):
            return True
    return False


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
# Rules that count only in hidden text, and only where a sentence begins at the edge of a text.
_ONLY_HIDDEN = "HIDDEN_"
EDGE_RULES = "EDGE_"
# Rules that prompts, chat templates and comments in source code hit as well.
_RECORDED_IN_CODE = (
    *("FAKE_", "TOOL_CALL_LOOKALIKE", "STEERS_ANSWER", "KEEPS_FROM_USER", "ORDERS_TOOL_USE"),
    *("PLANTS_MEMORY", "LINK_TO_FILL_IN", "LEAK", "EVADE_OVERSIGHT"),
    *("OVERRIDE_BY_CLAUSE", "OVERRIDE_NEW_ORDERS", "CRISIS_"),
)
# `FAKE_TURN` and `LEAKS_INSTRUCTIONS` are stricter: documents speak of marks and prompts.
_ONLY_RECORDED = ("FAKE_ROLE_MARKER", "LEAK_PROMPT")
_STRICTER = {Action.WARN: Action.ESCALATE, Action.ESCALATE: Action.BLOCK}
_INVISIBLE = {
    "tags": ("text in characters that nobody can see", Action.BLOCK),
    "direction": ("characters that turn the direction of writing", Action.WARN),
    "widthless": ("a run of characters without a width", Action.WARN),
}
_MAX_EXCERPT = 100


@cache
def builtin_returned_rules(*, crisis: bool = False) -> RuleSet:
    """Return the built-in rules for returned text: its own, and those shared with users' text.

    `crisis` adds those for a person in danger.
    """
    own = builtin_rules(Surface.TOOL_RESULT)
    every = builtin_rules(Surface.INPUT).rules
    shared = [rule for rule in every if rule.id.startswith(_SHARED)]
    crises = [rule for rule in every if crisis and rule.code == ReasonCode.CRISIS_ESCALATION]
    injections = (
        msgspec.structs.replace(
            rule,
            code=ReasonCode.CONTEXT_INJECTION,
            action=Action.WARN if rule.id in _ONLY_RECORDED else rule.action,
        )
        for rule in shared
    )
    rules = (*own.rules, *injections, *crises)
    ids = [rule.id for rule in (*shared, *crises)]
    name = digest([own.digest, ids, builtin_rules(Surface.INPUT).digest])
    return RuleSet(
        surface=Surface.TOOL_RESULT,
        rules=rules,
        digest=name,
        where=own.where,
        languages=builtin_rules(Surface.INPUT).languages if crisis else (),
        language_codes=(ReasonCode.CRISIS_ESCALATION,),
    )


def check_returned_text(
    text: str, source: str, rules: RuleSet | None, surface: Surface
) -> Iterator[Finding]:
    """Yield the findings in returned text, in the order of spans.

    Raises:
        InputError: The text is too long to be looked at in one piece.
    """
    if not isinstance(text, str):
        raise InputTypeError.wrong_type("returned text", "a string", text)
    if rules is None:
        rules = builtin_returned_rules(crisis=surface is Surface.TOOL_RESULT)
    found = list(_invisible_findings(text, source, surface))
    if hits := scan_text(text, rules):
        parts = merge_parts(find_hidden_parts(text))
        many = flooded_rules(hits)
        if any(rule.startswith(_ONLY_HIDDEN) for rule in many):
            # Hits in visible text used up the limit: scan the hidden parts by themselves.
            hits = [hit for hit in hits if not _needs_hiding(hit)]
            hits += filter(_needs_hiding, scan_text(_blank_visible(text, parts), rules))
        for hit in hits:
            index = bisect_right(parts, hit.start, key=_part_start) - 1
            place = parts[index] if index >= 0 and hit.start < parts[index].end else None
            if place is None and (_needs_hiding(hit) or not _is_in_place(hit, text)):
                continue
            span = (hit.start, hit.end)
            talk = is_mentioned(text, *span) or is_example(text, *span) or _is_code_data(hit, text)
            mentioned = talk and hit.rule.id not in many
            finding = hit_finding(hit, surface)
            if hit.rule.code == ReasonCode.CRISIS_ESCALATION:
                # Even a warning of this code binds, so words that are only quoted are left out.
                if not talk:
                    facts = {**crisis_evidence(hit.rule.id, via=hit.via), "source": source}
                    found.append(msgspec.structs.replace(finding, evidence=facts))
                continue
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


def _is_in_place(hit: TextHit, text: str) -> bool:
    """Return whether the hit is where its rule counts."""
    if _LINT_MARK.search(text, max(0, hit.start - _MAX_MARK), hit.start):
        return False
    if not hit.rule.id.startswith(EDGE_RULES):
        return True
    start = hit.start
    if len(text) - start > _MAX_EDGE or not text[:start].strip() or _is_for_agents(text):
        return False
    line = text[text.rfind("\n", 0, start) + 1 : start]
    begins = not line.strip() or _SENTENCE_ENDS.search(line) is not None
    is_literal = _MARKED_LINE.match(line) or line.count('"') % 2 or _TEMPLATE.search(text)
    if not begins or is_literal or _is_in_long_text(text, start):
        return False
    return hit.rule.id != _TASK_RULE or _leaves_matter(text, start)


def _is_for_agents(text: str) -> bool:
    """Return whether a text is a skill or another file that says what its reader is."""
    head = _AGENT_HEAD.match(text)
    return head is not None and all(f"\n{key}" in f"\n{head[1]}" for key in _HEAD_KEYS)


def _leaves_matter(text: str, start: int) -> bool:
    """Return whether a task shares no word with the text before it, as one in a ticket does."""
    before = {word[:_STEM] for word in _WORD.findall(text[:start].lower())}
    task = {word[:_STEM] for word in _WORD.findall(text[start:].lower())} - _TASK_WORDS
    return len(before) >= _MIN_MATTER and before.isdisjoint(task)


def _is_code_data(hit: TextHit, text: str) -> bool:
    """Return whether the hit stands in a program or a fence, and prompts there say the same."""
    return hit.rule.id.startswith(_RECORDED_IN_CODE) and is_in_code(text, hit.start)


def is_in_code(text: str, place: int) -> bool:
    """Return whether `place` is in a program: among its lines, in its long text, or in a fence.

    Data such as JSON is no program: what a service returns is often JSON.
    """
    if len(_FENCE.findall(text, 0, place)) % 2:
        return True
    for reach in (_CODE_REACH, _WIDE_CODE_REACH):
        near = _CODE_LINE.findall(text, max(0, place - reach), place + reach)
        if len(near) >= _MIN_CODE_LINES:
            return True
        if text.find("\n", max(0, place - reach), place + reach) >= 0:
            # Only a single long line needs more around it.
            break
    return _is_in_long_text(text, place) and len(_CODE_LINE.findall(text)) >= _MIN_CODE_LINES


def _is_in_long_text(text: str, place: int) -> bool:
    """Return whether a fence or the quotes of a text over several lines are open at `place`."""
    if len(_FENCE.findall(text, 0, place)) % 2:
        return True
    return any(text.count(mark, 0, place) % 2 for mark in _LONG_QUOTES)


def _blank_visible(text: str, parts: Iterable[HiddenPart]) -> str:
    """Return the hidden parts in their places, and blanks around them."""
    pieces: list[str] = []
    done = 0
    for _, start, end in parts:
        pieces += [" " * (start - done), text[start:end]]
        done = end
    return "".join(pieces)


def merge_parts(parts: Iterable[HiddenPart]) -> list[HiddenPart]:
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


FindingsChoice = Literal["withhold", "quote"]
# The evidence that a result may be passed on as a quotation.
QUOTE_EVIDENCE = "quote"


def mark_quotable(findings: Iterable[Finding], choice: FindingsChoice) -> Iterator[Finding]:
    """Yield the findings; those that hold say so if the rest of the text may be quoted."""
    for found in findings:
        if choice == "quote" and found.action is not Action.WARN:
            evidence = {**found.evidence, QUOTE_EVIDENCE: True}
            yield msgspec.structs.replace(found, evidence=evidence)
        else:
            yield found


SURFACE = Surface.TOOL_RESULT
CODES: tuple[str, ...] = (
    *RETURNED_CODES,
    ReasonCode.PII_DETECTED,
    ReasonCode.CRISIS_ESCALATION,
)


class ToolResult(NamedTuple):
    """The text that a tool returned, and the tool's name, where known."""

    text: str
    tool: str = "tool"


class ToolResultConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the tool-result guard.

    `rules` replaces the built-in ones. `personal` is the action for certain personal data;
    None looks for none. `findings` says what becomes of a result that holds a planted order:
    nothing of it is passed on, or the rest of it, quoted as data.
    """

    rules: RuleSet | None = None
    personal: Action | None = Action.WARN
    findings: FindingsChoice = "withhold"


_DEFAULT = ToolResultConfig()


def check(event: ToolResult, config: ToolResultConfig = _DEFAULT) -> Iterator[Finding]:
    """Yield the findings in a tool's result, in the order of spans."""
    held = check_returned_text(event.text, event.tool, config.rules, SURFACE)
    found = list(mark_quotable(held, config.findings))
    found += find_personal_data(event.text, config.personal, SURFACE)
    yield from sorted(found, key=finding_order)

"""Print findings: place, action and code, detail, and help."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from demur.cli.terminal import Paint
from demur.codes.meaning import ADVICE_MEANING
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice
from demur.errors import one_line
from demur.guards.contract import event_text
from demur.model.finding import Action, Finding

__all__ = ["GuardOutcome", "LocatedFinding", "judge_findings", "locate_findings", "print_findings"]

_ACTION_COLOURS = {Action.BLOCK: "red", Action.ESCALATE: "yellow", Action.WARN: "cyan"}
# The evidence fields that name the part of an event in which a span lies.
_PART_FIELDS = ("argument", "field", "message")


class LocatedFinding(NamedTuple):
    """A finding with its place: line and column in a text, or the name of a part."""

    finding: Finding
    line: int | None
    column: int | None
    part: str

    @property
    def as_json(self) -> dict[str, Any]:
        """The finding as plain JSON, with its place."""
        row: dict[str, Any] = msgspec.to_builtins(self.finding)
        return row if self.line is None else {**row, "line": self.line, "column": self.column}

    @property
    def with_location(self) -> Finding:
        """The finding with its line and column in the evidence, for SARIF."""
        if self.line is None:
            return self.finding
        evidence = {**self.finding.evidence, "line": self.line, "column": self.column}
        return msgspec.structs.replace(self.finding, evidence=evidence)


class GuardOutcome(NamedTuple):
    """The outcome of a check: one word for scripts, and the exit status."""

    word: str
    status: int


def judge_findings(findings: Sequence[Finding], registry: Registry) -> GuardOutcome:
    """Return the outcome of the findings; warnings alone block nothing."""
    if any(f.action is Action.BLOCK and registry[f.code].decided for f in findings):
        return GuardOutcome("block", 3)
    if any(not registry[f.code].decided for f in findings):
        return GuardOutcome("unjudged", 6)
    if any(f.action is Action.ESCALATE for f in findings):
        return GuardOutcome("escalate", 4)
    return GuardOutcome("warn" if findings else "pass", 0)


def locate_findings(findings: Sequence[Finding], event: object) -> list[LocatedFinding]:
    """Return the findings with their places in the event's text, if it has one."""
    text = event_text(event)
    starts = [0]
    if text is not None:
        starts += [at + 1 for at, character in enumerate(text) if character == "\n"]
    return [_locate_finding(finding, starts if text is not None else None) for finding in findings]


def _locate_finding(finding: Finding, starts: list[int] | None) -> LocatedFinding:
    if finding.span is None or starts is None:
        named = [str(finding.evidence[name]) for name in _PART_FIELDS if finding.evidence.get(name)]
        return LocatedFinding(finding, None, None, named[0] if named else "")
    line = bisect_right(starts, finding.span.start)
    return LocatedFinding(finding, line, finding.span.start - starts[line - 1] + 1, "")


def print_findings(found: Sequence[LocatedFinding], where: str, registry: Registry) -> None:
    """Print the findings, and how many there are of each kind."""
    paint = Paint()
    for one in found:
        finding = one.finding
        label = paint(f"{finding.action}[{finding.code}]", "bold", _ACTION_COLOURS[finding.action])
        said = finding.detail or registry[finding.code].summary
        rule = finding.evidence.get("rule")
        named = paint(f" ({one_line(str(rule))})", "dim") if rule else ""
        print(f"{one_line(_format_location(one, where))}: {label} {one_line(said)}{named}")
        help_text = _help_for(finding, registry)
        if help_text:
            print(f"  {paint('help:', 'cyan')} {help_text}")
    print(paint(_count_findings(found), "dim"))


def _help_for(finding: Finding, registry: Registry) -> str | None:
    advice = registry[finding.code].advice
    if advice is None or finding.action is Action.WARN:
        return None
    # Guards offer no constraints; only policies do.
    offered = advice is not Advice.ACCEPT_CONSTRAINTS
    return ADVICE_MEANING[advice if offered else Advice.CHANGE_REQUEST]


def _format_location(one: LocatedFinding, where: str) -> str:
    if one.line is not None:
        return f"{where}:{one.line}:{one.column}"
    return f"{where}: {one.part}" if one.part else where


def _count_findings(found: Sequence[LocatedFinding]) -> str:
    if not found:
        return "nothing found"
    counts = Counter(one.finding.action for one in found)
    said = ", ".join(f"{counts[action]} {action}" for action in Action if counts[action])
    return f"{said}: warnings block nothing" if set(counts) == {Action.WARN} else said

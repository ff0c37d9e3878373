"""Print a skill scan: findings by file, each rule explained once, and the outcome."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from demur.cli.terminal import Paint
from demur.codes.reason_code import ReasonCode
from demur.errors import one_line
from demur.guards.skill.catalogue import find_rule
from demur.guards.skill.guard import SuppressedFinding
from demur.model.finding import Action, Finding

__all__ = [
    "PASS",
    "REFUSE",
    "REVIEW",
    "UNJUDGED",
    "SkillOutcome",
    "judge_skill",
    "print_skill_report",
]

_ACTION_COLOURS = {Action.BLOCK: "red", Action.ESCALATE: "yellow", Action.WARN: "cyan"}
_ACTION_RANKS = {Action.WARN: 1, Action.ESCALATE: 2, Action.BLOCK: 3}
_MAX_PLACES = 5


class SkillOutcome(NamedTuple):
    """The outcome of a scan: one word for scripts, the exit status, and a sentence for people."""

    word: str
    status: int
    sentence: str


PASS = SkillOutcome("pass", 0, "no findings against this skill")
REFUSE = SkillOutcome("refuse", 3, "refused: do not use this skill as it is")
REVIEW = SkillOutcome("review", 4, "a person should review this skill before it is used")
UNJUDGED = SkillOutcome("unjudged", 6, "a part of this skill could not be judged")


def judge_skill(findings: Iterable[Finding], fail_on: Action) -> SkillOutcome:
    """Return the outcome of the scan; findings milder than `fail_on` do not count."""
    counted = [
        finding for finding in findings if _ACTION_RANKS[finding.action] >= _ACTION_RANKS[fail_on]
    ]
    if any(finding.action is Action.BLOCK for finding in counted):
        return REFUSE
    if any(finding.code == ReasonCode.GUARDRAIL_PARTIAL for finding in counted):
        return UNJUDGED
    return REVIEW if counted else PASS


class _SkillPrinter:
    def __init__(self) -> None:
        self.paint = Paint()
        self._explained: set[tuple[str, str]] = set()

    def print_file(self, name: str, findings: Sequence[Finding]) -> None:
        print(self.paint(one_line(name), "bold"))
        ranked = sorted(
            findings, key=lambda one: (-_ACTION_RANKS[one.action], one.evidence["line"])
        )
        groups: dict[tuple[str, Action], list[Finding]] = {}
        for finding in ranked:
            groups.setdefault((finding.evidence["rule"], finding.action), []).append(finding)
        for alike in groups.values():
            self._print_group(alike)

    def _print_group(self, alike: Sequence[Finding]) -> None:
        first = alike[0]
        rule = find_rule(first.evidence["rule"], first.code, first.action)
        label = self.paint(f"{first.action}[{rule.id}]", "bold", _ACTION_COLOURS[first.action])
        print(f"  {_format_place(first)}: {label} {first.code}: {one_line(first.detail)}")
        if len(alike) > 1:
            shown = ", ".join(map(_format_place, alike[1 : _MAX_PLACES + 1]))
            more = len(alike) - 1 - _MAX_PLACES
            print(f"    also at {shown}{f' and {more} more' if more > 0 else ''}")
        if (rule.why, rule.fix) not in self._explained:
            self._explained.add((rule.why, rule.fix))
            print(f"    {self.paint('why:', 'cyan')} {rule.why}")
            print(f"    {self.paint('help:', 'cyan')} {rule.fix}")


def _format_place(finding: Finding) -> str:
    return f"{finding.evidence['line']}:{finding.evidence['column']}"


def print_skill_report(
    findings: Sequence[Finding],
    suppressed: Sequence[SuppressedFinding],
    *,
    files: int,
    accepted: int,
    outcome: SkillOutcome,
) -> None:
    """Print the findings by file, the allowed findings, the counts and the outcome."""
    printer = _SkillPrinter()
    by_file = groupby(findings, key=lambda one: str(one.evidence["file"]))
    files_found = [(name, list(inside)) for name, inside in by_file]
    # Files with the most severe findings come first.
    files_found.sort(key=lambda pair: -max(_ACTION_RANKS[one.action] for one in pair[1]))
    for name, inside in files_found:
        printer.print_file(name, inside)
    _print_allowed(suppressed, printer.paint)
    print(printer.paint(_summarize_counts(findings, files, accepted), "dim"))
    print(printer.paint(outcome.sentence, "bold"))
    if findings:
        print(
            "  to accept a finding: `demur: allow CODE -- reason` in a comment on its line (not"
            " for a block), or --write-baseline FILE and then --baseline FILE"
        )


def _print_allowed(suppressed: Sequence[SuppressedFinding], paint: Paint) -> None:
    if not suppressed:
        return
    print(paint("allowed by comments in the skill itself", "bold"))
    for finding, reason in suppressed:
        place = f"{one_line(str(finding.evidence['file']))}:{_format_place(finding)}"
        print(f"  {place}: {finding.code}: {one_line(finding.detail)}")
        print(f"    reason: {one_line(reason)}")


def _summarize_counts(findings: Sequence[Finding], files: int, accepted: int) -> str:
    counts = Counter(finding.action for finding in findings)
    words = ", ".join(f"{counts[action]} {action}" for action in Action)
    touched = len({finding.evidence["file"] for finding in findings})
    read = f"{files} file{'' if files == 1 else 's'}"
    known = f"; {accepted} known from the baseline" if accepted else ""
    return f"{words} in {touched} of {read}{known}" if findings else f"{read} read{known}"

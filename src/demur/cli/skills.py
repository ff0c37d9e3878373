"""`demur guard skill`: scan a skill or plugin folder before it is trusted."""

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from demur.cli.main import Arguments, UsageError
from demur.cli.options import write_file
from demur.cli.terminal import Paint
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.errors import InputError, one_line
from demur.guards.sarif import to_sarif
from demur.guards.skill.event import Skill, SkillConfig, read_baseline, write_baseline
from demur.guards.skill.folder import read_skill
from demur.guards.skill.guard import Inspection, SuppressedFinding, inspect_skill
from demur.guards.skill.rules import find_rule
from demur.model.finding import Action, Finding

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
    baseline = f"; {accepted} known from the baseline" if accepted else ""
    return f"{words} in {touched} of {read}{baseline}" if findings else f"{read} read{baseline}"


def configure_guard_skill(add: Arguments) -> None:
    """Add the command's arguments."""
    add("path PATH", "the folder of the skill, or a file", type=Path)
    form = add.either()
    form("--json", "one JSON object")
    form("--sarif", "a SARIF 2.1.0 log")
    add("--baseline FILE", "ignore the findings that this file accepts", type=Path)
    add("--write-baseline FILE", "accept all current findings, for later scans", type=Path)
    add(
        "--fail-on",
        "the mildest action that fails the scan (default: escalate)",
        choices=[str(action) for action in Action],
        default=str(Action.ESCALATE),
    )
    add("--allow-import NAME ...", "allow imports of this module and its submodules; repeatable")
    add("--allow-host HOST ...", "allow connections to this host and its subdomains; repeatable")
    add("--ignore-comments", "ignore comments in the skill that allow findings")


def run_guard_skill(args: Namespace) -> int:
    """Print the findings in the skill, and return the status of the scan."""
    baseline = frozenset[str]() if args.baseline is None else _read_baseline_file(args.baseline)
    config = SkillConfig(
        allow_imports=tuple(args.allow_import),
        allow_hosts=tuple(args.allow_host),
        trust_comments=not args.ignore_comments,
    )
    skill = read_skill(args.path)
    if not skill.files and not skill.omitted:
        raise UsageError("there are no files in it", where=str(args.path))
    inspection = inspect_skill(skill, config)
    if args.write_baseline is not None:
        write_file(args.write_baseline, write_baseline(inspection.findings))
        print(f"{args.write_baseline}: {len(inspection.findings)} findings accepted")
        return 0
    findings = tuple(
        one for one in inspection.findings if one.evidence["fingerprint"] not in baseline
    )
    outcome = judge_skill(findings, Action(args.fail_on))
    _print_scan(
        args, skill, Inspection(findings, inspection.suppressed), outcome, len(inspection.findings)
    )
    return outcome.status


def _read_baseline_file(path: Path) -> frozenset[str]:
    try:
        return read_baseline(path.read_text(encoding="utf-8"))
    except InputError as error:
        raise InputError(error.problem, where=str(path), help=error.help) from error
    except UnicodeDecodeError as error:
        raise InputError("the baseline is not UTF-8 text", where=str(path)) from error


def _print_scan(
    args: Namespace, skill: Skill, inspection: Inspection, outcome: SkillOutcome, total: int
) -> None:
    accepted = total - len(inspection.findings)
    if args.json:
        print(json.dumps(_scan_to_json(skill, inspection, outcome, accepted), indent=2))
    elif args.sarif:
        log = to_sarif(
            inspection.findings, registry=Registry.load(), suppressed=inspection.suppressed
        )
        print(json.dumps(log, indent=2))
    else:
        print_skill_report(
            inspection.findings,
            inspection.suppressed,
            files=len(skill.files),
            accepted=accepted,
            outcome=outcome,
        )


def _scan_to_json(
    skill: Skill, inspection: Inspection, outcome: SkillOutcome, accepted: int
) -> dict[str, Any]:
    return {
        "skill": skill.name,
        "outcome": outcome.word,
        "status": outcome.status,
        "files": len(skill.files),
        "accepted": accepted,
        "findings": [_finding_to_json(finding) for finding in inspection.findings],
        "suppressed": [
            {**_finding_to_json(one.finding), "reason": one.reason} for one in inspection.suppressed
        ],
    }


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(finding)
    return row

"""`demur guard skill`: scan a skill or plugin folder before it is trusted."""

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec

from demur.cli.files import write_file
from demur.cli.skill_folder import read_skill
from demur.cli.skill_report import SkillOutcome, judge_skill, print_skill_report
from demur.codes.registry import Registry
from demur.errors import InputError
from demur.guards.sarif import to_sarif
from demur.guards.skill.baseline import read_baseline, write_baseline
from demur.guards.skill.bundle import Skill, SkillConfig
from demur.guards.skill.guard import Inspection, SuppressedFinding, inspect_skill
from demur.model.finding import Action, Finding

__all__ = ["configure_guard_skill", "run_guard_skill"]


def configure_guard_skill(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "exit: 0 passed; 1 an error; 2 usage; 3 refused, a finding blocks;"
        " 4 a person should review it; 6 a part could not be judged"
    )
    parser.add_argument(
        "path", type=Path, metavar="PATH", help="the folder of the skill, or a file"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object")
    form.add_argument("--sarif", action="store_true", help="a SARIF 2.1.0 log")
    parser.add_argument(
        "--baseline", type=Path, metavar="FILE", help="ignore the findings that this file accepts"
    )
    parser.add_argument(
        "--write-baseline",
        type=Path,
        metavar="FILE",
        help="accept all current findings, for later scans",
    )
    parser.add_argument(
        "--fail-on",
        choices=[str(action) for action in Action],
        default=str(Action.ESCALATE),
        help="the mildest action that fails the scan (default: escalate)",
    )
    _add_exception_options(parser)


def _add_exception_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-import",
        action="append",
        default=[],
        metavar="NAME",
        help="allow imports of this module and its submodules; repeatable",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST",
        help="allow connections to this host and its subdomains; repeatable",
    )
    parser.add_argument(
        "--ignore-comments",
        action="store_true",
        help="ignore comments in the skill that allow findings",
    )


def run_guard_skill(args: argparse.Namespace) -> int:
    """Print the findings in the skill, and return the status of the scan."""
    known = frozenset[str]() if args.baseline is None else _read_baseline_file(args.baseline)
    config = SkillConfig(
        allow_imports=tuple(args.allow_import),
        allow_hosts=tuple(args.allow_host),
        trust_comments=not args.ignore_comments,
    )
    skill = read_skill(args.path)
    seen = inspect_skill(skill, config)
    if args.write_baseline is not None:
        write_file(args.write_baseline, write_baseline(seen.findings))
        print(f"{args.write_baseline}: {len(seen.findings)} findings accepted")
        return 0
    findings = tuple(one for one in seen.findings if one.evidence["fingerprint"] not in known)
    ended = judge_skill(findings, Action(args.fail_on))
    _print_scan(args, skill, Inspection(findings, seen.suppressed), ended, len(seen.findings))
    return ended.status


def _read_baseline_file(path: Path) -> frozenset[str]:
    try:
        return read_baseline(path.read_text(encoding="utf-8"))
    except InputError as error:
        raise InputError(error.problem, where=str(path), help=error.help) from error
    except UnicodeDecodeError as error:
        raise InputError("the baseline is not UTF-8 text", where=str(path)) from error


def _print_scan(
    args: argparse.Namespace, skill: Skill, seen: Inspection, ended: SkillOutcome, total: int
) -> None:
    accepted = total - len(seen.findings)
    if args.json:
        print(json.dumps(_scan_to_json(skill, seen, ended, accepted), indent=2))
    elif args.sarif:
        log = to_sarif(seen.findings, registry=Registry.load(), suppressed=seen.suppressed)
        print(json.dumps(log, indent=2))
    else:
        print_skill_report(
            seen.findings,
            seen.suppressed,
            files=len(skill.files),
            accepted=accepted,
            outcome=ended,
        )


def _scan_to_json(
    skill: Skill, seen: Inspection, ended: SkillOutcome, accepted: int
) -> dict[str, Any]:
    return {
        "skill": skill.name,
        "outcome": ended.word,
        "status": ended.status,
        "files": len(skill.files),
        "accepted": accepted,
        "findings": [_finding_to_json(finding) for finding in seen.findings],
        "suppressed": [_suppressed_to_json(one) for one in seen.suppressed],
    }


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(finding)
    return row


def _suppressed_to_json(one: SuppressedFinding) -> dict[str, Any]:
    return {**_finding_to_json(one.finding), "reason": one.reason}

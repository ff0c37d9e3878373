"""`demur doctor`: check settings, policy, store, file permissions, clock and disk."""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from demur.cli.checkup import HealthCheck, HealthState, report_error
from demur.cli.checkup_machine import check_clock, check_disk, check_extras, check_permissions
from demur.cli.checkup_settings import check_settings
from demur.cli.checkup_store import check_spool, check_store
from demur.cli.terminal import Paint
from demur.cli.workspace import add_config_option, config_path, read_settings
from demur.errors import DemurError, one_line
from demur.gate.clock import system_clock

__all__ = ["configure_doctor", "run_checks", "run_doctor"]

_STATE_COLOURS = {
    HealthState.OK: "green",
    HealthState.WARNING: "yellow",
    HealthState.PROBLEM: "red",
}
# A fix may reveal another problem: first a missing folder, then its content.
_MAX_FIX_ROUNDS = 3


def configure_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 no problems, warnings allowed; 1 problems; 2 usage"
    parser.add_argument(
        "--fix",
        action="store_true",
        help="apply safe fixes: create missing folders, remove permissions of other users",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_option(parser)


def run_doctor(args: argparse.Namespace) -> int:
    """Print the checks; 1 if a problem remains."""
    now = system_clock()
    checks = list(run_checks(args, now))
    fixed: list[HealthCheck] = []
    for _ in range(_MAX_FIX_ROUNDS if args.fix else 0):
        repaired = list(_apply_fixes(checks))
        if not repaired:
            break
        fixed += repaired
        checks = list(run_checks(args, now))
    if args.json:
        print(json.dumps(_checks_to_json(checks, fixed), indent=2))
    else:
        print("\n".join(_format_checks(checks, fixed, Paint())))
    return int(any(check.state is HealthState.PROBLEM for check in checks))


def run_checks(args: argparse.Namespace, now: datetime) -> Iterator[HealthCheck]:
    """Yield the results of all checks."""
    yield from _check_workspace(args, now)
    yield from check_clock(now)
    yield from check_extras()


def _check_workspace(args: argparse.Namespace, now: datetime) -> Iterator[HealthCheck]:
    try:
        path = config_path(args)
        config = read_settings(path)
    except DemurError as error:
        yield from report_error("settings", error)
        return
    yield from check_settings(path, config)
    yield from check_store(config, now)
    yield from check_spool(config)
    yield from check_permissions(path, config)
    yield from check_disk(config)


def _apply_fixes(checks: Sequence[HealthCheck]) -> Iterator[HealthCheck]:
    """Yield the checks whose fix succeeded; the others stay problems."""
    for check in checks:
        if check.fix is None:
            continue
        try:
            check.fix()
        except OSError:
            continue
        yield check


def _checks_to_json(
    checks: Sequence[HealthCheck], fixed: Sequence[HealthCheck]
) -> dict[str, object]:
    return {
        "problems": sum(check.state is HealthState.PROBLEM for check in checks),
        "warnings": sum(check.state is HealthState.WARNING for check in checks),
        "fixed": [check.what for check in fixed],
        "checks": [check.as_json() for check in checks],
    }


def _format_checks(
    checks: Sequence[HealthCheck], fixed: Sequence[HealthCheck], paint: Paint
) -> Iterator[str]:
    for check in fixed:
        yield f"{paint('fixed'.ljust(8), 'cyan')} {check.name.ljust(10)} {one_line(check.what)}"
    for check in checks:
        state = paint(check.state.ljust(8), _STATE_COLOURS[check.state])
        yield f"{state} {check.name.ljust(10)} {one_line(check.what)}"
        if check.help:
            yield f"  {paint('help:', 'cyan')} {one_line(check.help)}"
    counts = Counter(check.state for check in checks)
    said = [
        f"{counts[state]} {state}{'s' * (counts[state] != 1)}"
        for state in (HealthState.PROBLEM, HealthState.WARNING)
        if counts[state]
    ]
    yield paint(", ".join(said) or "all is well", "dim")

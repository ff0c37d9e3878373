"""`demur doctor`: print health checks, and apply their fixes."""

import json
import os
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from demur.cli.hook_install import describe_writable_files
from demur.cli.main import Arguments
from demur.cli.terminal import Paint
from demur.cli.workspace import add_config_option, config_path
from demur.errors import DemurError, one_line
from demur.gate.clock import system_clock
from demur.gate.config import Config, load_config
from demur.integrations.claude_code.settings import (
    is_isolated_command,
    list_demur_commands,
    parse_settings,
    read_settings_file,
)
from demur.observe.health import (
    HealthCheck,
    HealthState,
    check_clock,
    check_extras,
    check_health,
    check_models,
    report_error,
)

_COLOURS = {HealthState.OK: "green", HealthState.WARNING: "yellow", HealthState.PROBLEM: "red"}
# A fix may reveal another problem: first a missing folder, then its content.
_MAX_FIX_ROUNDS = 3


def configure_doctor(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--fix", "apply safe fixes: create missing folders, remove permissions of other users")
    add("--json", "one JSON object")
    add_config_option(add)


def run_doctor(args: Namespace) -> int:
    """Print the checks; 1 if a problem remains."""
    now = system_clock()
    checks = list(_run_checks(args, now))
    fixed: list[HealthCheck] = []
    for _ in range(_MAX_FIX_ROUNDS if args.fix else 0):
        repaired = list(_apply_fixes(checks))
        if not repaired:
            break
        fixed += repaired
        checks = list(_run_checks(args, now))
    counts = Counter(check.state for check in checks)
    if args.json:
        document = {
            "problems": counts[HealthState.PROBLEM],
            "warnings": counts[HealthState.WARNING],
            "fixed": [check.what for check in fixed],
            "checks": [check.as_json() for check in checks],
        }
        print(json.dumps(document, indent=2))
    else:
        print("\n".join(_format_checks(checks, fixed, Paint())))
    return int(counts[HealthState.PROBLEM] > 0)


def _run_checks(args: Namespace, now: datetime) -> Iterator[HealthCheck]:
    try:
        path = config_path(args)
        config = load_config(path)
    except DemurError as error:
        yield from report_error("settings", error)
    else:
        yield from check_health(path, config, now)
        yield from _check_models(config)
    yield from check_clock(now)
    yield from check_extras()
    yield from _check_hooks()


def _check_models(config: Config) -> Iterator[HealthCheck]:
    try:
        yield from check_models(config)
    except DemurError:
        """The check of the guards has reported the setting."""


def _check_hooks() -> Iterator[HealthCheck]:
    """Yield a check of each settings file of Claude Code that runs demur as a hook."""
    home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
    names = ("settings.json", "settings.local.json")
    for path in [*(Path(".claude", name) for name in names), home / "settings.json"]:
        try:
            file = read_settings_file(path)
            commands = list_demur_commands(parse_settings(file.text, str(path)))
        except DemurError as error:
            yield from report_error("hook", error)
            continue
        if not commands:
            continue
        note = next(describe_writable_files([path]), None)
        if not all(is_isolated_command(command) for command in commands):
            note = "the hook runs by name or with the environment of the project"
        if note is None:
            yield HealthCheck("hook", HealthState.OK, f"{path} runs demur isolated")
        else:
            help_text = "`demur hook install claude-code`, from a demur that another user installed"
            yield HealthCheck("hook", HealthState.WARNING, f"{path}: {note}", help_text)


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


def _format_checks(
    checks: Sequence[HealthCheck], fixed: Sequence[HealthCheck], paint: Paint
) -> Iterator[str]:
    for check in fixed:
        yield f"{paint('fixed'.ljust(8), 'cyan')} {check.name.ljust(10)} {one_line(check.what)}"
    for check in checks:
        state = paint(check.state.ljust(8), _COLOURS[check.state])
        yield f"{state} {check.name.ljust(10)} {one_line(check.what)}"
        if check.help:
            yield f"  {paint('help:', 'cyan')} {one_line(check.help)}"
    counts = Counter(check.state for check in checks)
    summary = [
        f"{counts[state]} {state}{'s' * (counts[state] != 1)}"
        for state in (HealthState.PROBLEM, HealthState.WARNING)
        if counts[state]
    ]
    yield paint(", ".join(summary) or "all is well", "dim")

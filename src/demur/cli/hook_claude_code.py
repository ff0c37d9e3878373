"""`demur hook claude-code`: answer one hook event of Claude Code.

The command reads the event from standard input and prints the answer. It fails closed: if demur
cannot judge an event, it denies the event by JSON and status 0, or by status 2 if it cannot print.
It never exits with 1, which would let the action run. Slow modules are imported only if needed.
"""

import argparse
import os
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from demur.integrations.claude_code.asking import (
    CAN_WARM,
    alone,
    ask_warm,
    can_listen,
    is_starting,
    socket_path,
    start_warm,
)
from demur.integrations.claude_code.emergency import BLOCKED, Ending, denial, refusal_line
from demur.integrations.claude_code.unguarded import ending_unguarded

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.integrations.claude_code.hook import Hook

__all__ = ["configure", "run"]

_BUDGET_S = 20.0
_IDLE_S = 3600.0
_LONGEST_WAIT_S = 5.0
_POLL_S = 0.01
_LARGEST = 32_000_000
_ENDING = "demur.integrations.claude_code.ending"
_WARM = "demur.integrations.claude_code.warm"
_STANDING = "demur.integrations.claude_code.standing"
_TERMS = "demur.integrations.claude_code.terms"
_ANSWERING = "demur.integrations.claude_code.answering"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 the answer is printed, 2 refused"
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the settings file; default: DEMUR_CONFIG, or else guards decide without a policy. "
        "A demur.toml in the project is not used, because the agent could write it",
    )
    parser.add_argument(
        "--state", type=Path, metavar="DIR", help="the folder for histories and records"
    )
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        metavar="FILE",
        help="a file of rules that must survive compaction; repeatable",
    )
    parser.add_argument("--tenant", metavar="TENANT", help="the tenant of the records")
    parser.add_argument(
        "--ask",
        action="store_true",
        help="ask the user at the terminal for approval instead of refusing",
    )
    parser.add_argument(
        "--no-halt", action="store_true", help="let the agent continue after a hard block"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=_BUDGET_S,
        metavar="SECONDS",
        help="refuse events that are not judged in this time (default: %(default)g)",
    )
    parser.add_argument(
        "--warm",
        action="store_true",
        help="keep a daemon running that answers fast; it exits when idle",
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Answer one event; 0 with the answer printed, or 2."""
    if args.serve:
        return _serve(args)
    outcome = _Outcome()
    watch = threading.Timer(args.budget, outcome.give_up)
    watch.daemon = True
    watch.start()
    try:
        ending = _judged(args, outcome)
    except BaseException as error:  # noqa: BLE001 - no error may let the action run
        detail = f"the hook failed: {type(error).__name__}"
        ending = outcome.denied(refusal_line("INTERNAL_ERROR", detail))
    status = outcome.settle(ending)
    watch.cancel()
    if outcome.is_cold:
        # Start the daemon only after the answer, because loading both at once would be slower.
        with suppress(Exception):
            _start_warm(args)
    return status


class _Outcome:
    """The single answer of this process, by the judgement or by the timeout.

    `is_cold`: no daemon is running, and one should be started.
    """

    def __init__(self) -> None:
        self.is_cold = False
        self._hook: Hook | None = None
        self._once = threading.Lock()

    def hear(self, hook: "Hook") -> None:
        """Set the event that is being judged."""
        self._hook = hook

    def denied(self, line: str) -> Ending:
        """Return a denial that fits the event, as far as it is known."""
        hook = self._hook
        return denial(None, line) if hook is None else denial(hook.event, line, hook.members)

    def settle(self, ending: Ending) -> int:
        """Print the answer, and return its status."""
        if not self._once.acquire(blocking=False):
            # The timeout has already answered, and is about to end the process.
            threading.Event().wait()
        return _printed(ending)

    def give_up(self) -> None:
        """Deny, and end the process at once, because the main thread may hang."""
        if self._once.acquire(blocking=False):
            line = refusal_line("GUARDRAIL_UNAVAILABLE", "it took too long to judge")
            os._exit(_printed(self.denied(line)))


def _printed(ending: Ending) -> int:
    """Print an answer, and return its status, or the blocking status if printing fails."""
    status = ending.status
    try:
        sys.stdout.write(ending.stdout)
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        status = BLOCKED
        _close_output()
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(ending.stderr)
        sys.stderr.flush()
    return status


def _close_output() -> None:
    """Redirect standard output to devnull: a failing flush at exit would change the status."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Where(NamedTuple):
    """Paths from the arguments and the environment."""

    config: Path | None
    state: Path
    project: str


def _where(args: argparse.Namespace) -> _Where:
    named = args.config or os.environ.get("DEMUR_CONFIG")
    above = os.environ.get("XDG_STATE_HOME")
    usual = Path(above) if above else Path.home() / ".local" / "state"
    return _Where(
        Path(named).absolute() if named else None,
        Path(args.state or usual / "demur" / "claude-code").absolute(),
        os.environ.get("CLAUDE_PROJECT_DIR", ""),
    )


def _judged(args: argparse.Namespace, outcome: _Outcome) -> Ending:
    raw = sys.stdin.buffer.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        detail = f"the hook's input has more than {_LARGEST} bytes"
        return denial(None, refusal_line("REQUEST_INVALID", detail))
    where = _where(args)
    warm = _warm_ending(args, where, raw) if args.warm and CAN_WARM else None
    ending = warm or ending_unguarded(raw, args.pin)
    outcome.is_cold = args.warm and CAN_WARM and warm is None
    if ending is None and outcome.is_cold and _waited(args, where):
        ending = _warm_ending(args, where, raw)
        outcome.is_cold = ending is None
    if ending is not None:
        return ending
    judged = cast("Callable[..., Ending]", import_module(_ENDING).ending_alone)
    return judged(raw, _terms(args, where), where.project, outcome.hear)


def _warm_ending(args: argparse.Namespace, where: _Where, raw: bytes) -> Ending | None:
    """Return the answer of the daemon, or None if there is no daemon."""
    path = socket_path(where.state, _serving(args, where))
    return ask_warm(path, raw, where.project, timeout_s=args.budget / 2)


def _waited(args: argparse.Namespace, where: _Where) -> bool:
    """Wait for a daemon that is starting; return whether there was one."""
    path = socket_path(where.state, _serving(args, where))
    until = time.monotonic() + min(args.budget / 4, _LONGEST_WAIT_S)
    waited = False
    while is_starting(path) and time.monotonic() < until:
        waited = True
        time.sleep(_POLL_S)
    return waited


def _start_warm(args: argparse.Namespace) -> None:
    """Start the daemon for later events."""
    where = _where(args)
    words = _serving(args, where)
    where.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    if can_listen(socket_path(where.state, words)):
        start_warm(words, where.state)


def _serving(args: argparse.Namespace, where: _Where) -> list[str]:
    """Return the command line of the daemon with the same configuration."""
    words = [sys.executable, "-P", "-m", "demur", "hook", "claude-code", "--serve"]
    words += ["--state", str(where.state), f"--budget={args.budget}"]
    words += [] if where.config is None else ["--config", str(where.config)]
    words += [] if args.tenant is None else ["--tenant", args.tenant]
    for pin in args.pin:
        words += ["--pin", str(Path(pin).absolute())]
    return words + ["--ask"] * args.ask + ["--no-halt"] * args.no_halt


def _terms(args: argparse.Namespace, where: _Where) -> Any:
    manner = import_module(_ANSWERING).Manner(ask=args.ask, halt=not args.no_halt)
    pins = tuple(str(Path(pin).absolute()) for pin in args.pin)
    terms = import_module(_TERMS).Terms
    return terms(where.state, where.config, pins, args.tenant, manner)


def _serve(args: argparse.Namespace) -> int:
    where = _where(args)
    path = socket_path(where.state, _serving(args, where))
    with alone(path) as first:
        if first:
            serve = cast("Callable[..., None]", import_module(_WARM).serve_warm)
            with import_module(_STANDING).Standing(_terms(args, where)) as standing:
                # In a thread, so that the daemon answers meanwhile.
                threading.Thread(target=standing.rehearse, daemon=True).start()
                serve(path, standing, idle_s=_IDLE_S)
    return 0

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
from argparse import Namespace
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from demur.integrations.claude_code.daemon_client import (
    SUPPORTS_DAEMON,
    ask_daemon,
    can_listen,
    hold_daemon_lock,
    is_starting,
    socket_path,
    start_daemon,
)
from demur.integrations.claude_code.fallback import (
    BLOCKED,
    HookExit,
    answer_unguarded,
    fallback_deny,
    refusal_line,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.cli.main import Arguments
    from demur.integrations.claude_code.hook import Hook

__all__ = ["configure_hook_claude_code", "run_hook_claude_code"]

_BUDGET_S = 20.0
_IDLE_S = 3600.0
_MAX_WAIT_S = 5.0
_POLL_S = 0.01
_MAX_INPUT_BYTES = 32_000_000
_DAEMON_MODULE = "demur.integrations.claude_code.daemon"
_RUNTIME_MODULE = "demur.integrations.claude_code.runtime"
_STYLE_MODULE = "demur.integrations.claude_code.hook"


def configure_hook_claude_code(add: "Arguments") -> None:
    """Add the command's arguments."""
    add(
        "--config FILE",
        "the settings file; default: guards decide without a policy. DEMUR_CONFIG and a demur.toml "
        "in the project are not used, because the agent could set them",
        type=Path,
    )
    add("--state DIR", "the folder for histories and records", type=Path)
    add("--pin FILE ...", "a file of rules that must survive compaction; repeatable")
    add("--tenant TENANT", "the tenant of the records")
    add("--ask", "ask the user at the terminal for approval instead of refusing")
    add("--no-halt", "let the agent continue after a hard block")
    text = "refuse events that are not judged in this time (default: %(default)g)"
    add("--budget SECONDS", text, type=float, default=_BUDGET_S)
    add("--warm", "keep a daemon running that answers fast; it exits when idle")
    add("--serve", argparse.SUPPRESS)


def run_hook_claude_code(args: Namespace) -> int:
    """Answer one event; 0 with the answer printed, or 2."""
    if args.serve:
        return _serve_daemon(args)
    outcome = _HookOutcome()
    watch = threading.Timer(args.budget, outcome.give_up)
    watch.daemon = True
    watch.start()
    try:
        answer = _judge_event(args, outcome)
    except BaseException as error:  # noqa: BLE001 - no error may let the action run
        detail = f"the hook failed: {type(error).__name__}"
        answer = outcome.deny(refusal_line("INTERNAL_ERROR", detail))
    status = outcome.finish(answer)
    watch.cancel()
    if outcome.is_cold:
        # Start the daemon only after the answer, because loading both at once would be slower.
        with suppress(Exception):
            where = _resolve_paths(args)
            words = _daemon_command(args, where)
            where.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            if can_listen(socket_path(where.state, words)):
                start_daemon(words, where.state)
    return status


class _HookOutcome:
    """The single answer of this process, by the judgement or by the timeout.

    `is_cold`: no daemon is running, and one should be started.
    """

    def __init__(self) -> None:
        self.is_cold = False
        self._hook: Hook | None = None
        self._once = threading.Lock()

    def set_hook(self, hook: "Hook") -> None:
        """Set the event that is being judged."""
        self._hook = hook

    def deny(self, line: str) -> HookExit:
        """Return a denial that fits the event, as far as it is known."""
        hook = self._hook
        return (
            fallback_deny(None, line)
            if hook is None
            else fallback_deny(hook.event, line, hook.members)
        )

    def finish(self, answer: HookExit) -> int:
        """Print the answer, and return its status."""
        if not self._once.acquire(blocking=False):
            # The timeout has already answered, and is about to end the process.
            threading.Event().wait()
        return _print_answer(answer)

    def give_up(self) -> None:
        """Deny, and end the process at once, because the main thread may hang."""
        if self._once.acquire(blocking=False):
            line = refusal_line("GUARDRAIL_UNAVAILABLE", "it took too long to judge")
            os._exit(_print_answer(self.deny(line)))


def _print_answer(answer: HookExit) -> int:
    """Print an answer, and return its status, or the blocking status if printing fails."""
    status = answer.status
    try:
        sys.stdout.write(answer.stdout)
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        status = BLOCKED
        # A flush at exit that fails would change the status.
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(answer.stderr)
        sys.stderr.flush()
    return status


class _HookPaths(NamedTuple):
    """Paths from the arguments and the environment."""

    config: Path | None
    state: Path
    project: str


def _resolve_paths(args: Namespace) -> _HookPaths:
    state_home = os.environ.get("XDG_STATE_HOME")
    base = Path(state_home) if state_home else Path.home() / ".local" / "state"
    return _HookPaths(
        Path(args.config).absolute() if args.config else None,
        Path(args.state or base / "demur" / "claude-code").absolute(),
        os.environ.get("CLAUDE_PROJECT_DIR", ""),
    )


def _judge_event(args: Namespace, outcome: _HookOutcome) -> HookExit:
    raw = sys.stdin.buffer.read(_MAX_INPUT_BYTES + 1)
    if len(raw) > _MAX_INPUT_BYTES:
        detail = f"the hook's input has more than {_MAX_INPUT_BYTES} bytes"
        return fallback_deny(None, refusal_line("REQUEST_INVALID", detail))
    where = _resolve_paths(args)
    path = socket_path(where.state, _daemon_command(args, where))
    listened = path.exists()
    warm = _ask_daemon(args, where, raw) if args.warm and SUPPORTS_DAEMON else None
    answer = warm or answer_unguarded(raw, args.pin)
    outcome.is_cold = args.warm and SUPPORTS_DAEMON and warm is None
    if answer is None and outcome.is_cold and not listened:
        answer = _ask_starting_daemon(args, where, raw)
        outcome.is_cold = answer is None
    if answer is not None:
        return answer
    run_hook = cast("Callable[..., HookExit]", import_module(_RUNTIME_MODULE).run_hook)
    return run_hook(raw, _build_config(args, where), where.project, outcome.set_hook)


def _ask_daemon(args: Namespace, where: _HookPaths, raw: bytes) -> HookExit | None:
    """Return the answer of the daemon, or None if there is no daemon."""
    path = socket_path(where.state, _daemon_command(args, where))
    return ask_daemon(path, raw, where.project, timeout_s=args.budget / 2)


def _ask_starting_daemon(args: Namespace, where: _HookPaths, raw: bytes) -> HookExit | None:
    """Return the answer of a daemon that starts now, or None if none does."""
    path = socket_path(where.state, _daemon_command(args, where))
    until = time.monotonic() + min(args.budget / 4, _MAX_WAIT_S)
    while time.monotonic() < until:
        # Look before asking, because it may begin to listen in between.
        starting = is_starting(path)
        if path.exists():
            return _ask_daemon(args, where, raw)
        if not starting:
            break
        time.sleep(_POLL_S)
    return None


def _daemon_command(args: Namespace, where: _HookPaths) -> list[str]:
    """Return the command line of the daemon with the same configuration."""
    words = [sys.executable, "-I", "-m", "demur", "hook", "claude-code", "--serve"]
    words += ["--state", str(where.state), f"--budget={args.budget}"]
    words += [] if where.config is None else ["--config", str(where.config)]
    words += [] if args.tenant is None else ["--tenant", args.tenant]
    for pin in args.pin:
        words += ["--pin", str(Path(pin).absolute())]
    return words + ["--ask"] * args.ask + ["--no-halt"] * args.no_halt


def _build_config(args: Namespace, where: _HookPaths) -> Any:
    style = import_module(_STYLE_MODULE).HookStyle(ask=args.ask, halt=not args.no_halt)
    pins = tuple(str(Path(pin).absolute()) for pin in args.pin)
    hook_config = import_module(_RUNTIME_MODULE).HookConfig
    return hook_config(where.state, where.config, pins, args.tenant, style)


def _serve_daemon(args: Namespace) -> int:
    where = _resolve_paths(args)
    path = socket_path(where.state, _daemon_command(args, where))
    with hold_daemon_lock(path) as first:
        if first:
            serve = cast("Callable[..., None]", import_module(_DAEMON_MODULE).serve_daemon)
            with import_module(_RUNTIME_MODULE).HookRuntime(_build_config(args, where)) as runtime:
                # In a thread, so that the daemon answers meanwhile.
                threading.Thread(target=runtime.warm_up, daemon=True).start()
                serve(path, runtime, idle_s=_IDLE_S)
    return 0

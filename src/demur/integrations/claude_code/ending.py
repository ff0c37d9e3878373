"""Run a hook on its input: an answer, or a denial if it cannot be judged."""

import json
from collections.abc import Callable
from typing import Any, Protocol

from demur.errors import DemurError
from demur.integrations.claude_code.emergency import HookExit, fallback_deny, refusal_line
from demur.integrations.claude_code.hook import HookEventError, Hook, read_hook
from demur.integrations.claude_code.judging import GUARDED_SURFACES
from demur.integrations.claude_code.pins import PinsError, read_pins
from demur.integrations.claude_code.standing import HookRuntime
from demur.integrations.claude_code.terms import HookConfig
from demur.integrations.claude_code.unguarded import unguarded_output
from demur.store.backend import StorageError

__all__ = ["HookJudge", "run_hook", "run_hook_with", "refusal_line_for"]

_IGNORE_HOOK: Callable[[object], object] = id


class HookJudge(Protocol):
    """Judges an event of a project."""

    def judge(self, hook: Hook, project: str) -> dict[str, Any]:
        """Return the output of the hook."""


def run_hook(
    raw: bytes,
    config: HookConfig,
    project: str = "",
    on_hook: Callable[[Hook], object] = _IGNORE_HOOK,
) -> HookExit:
    """Judge a hook's input in this process; `on_hook` is called with the parsed event.

    Never raises: every failure is a denial.
    """
    return _judge_input(raw, lambda hook: _judge_once(hook, config, project), on_hook)


def run_hook_with(raw: bytes, judge: HookJudge, project: str = "") -> HookExit:
    """Judge a hook's input with an open runtime. Never raises."""
    return _judge_input(raw, lambda hook: judge.judge(hook, project), _IGNORE_HOOK)


def refusal_line_for(error: BaseException) -> str:
    """Return the refusal line of an error; its type decides the code."""
    match error:
        case StorageError():
            code = "STORAGE_UNAVAILABLE"
        case HookEventError():
            code = "REQUEST_INVALID"
        case PinsError():
            code = "GUARDRAIL_UNAVAILABLE"
        case DemurError():
            code = "POLICY_INVALID"
        case _:
            # Name only the type: an error's text may quote secrets.
            return refusal_line("INTERNAL_ERROR", f"the hook failed: {type(error).__name__}")
    first = error.problems[0]
    return refusal_line(code, f"{first.where}: {first.problem}" if first.where else first.problem)


def _judge_input(
    raw: bytes, judge_event: Callable[[Hook], dict[str, Any]], on_hook: Callable[[Hook], object]
) -> HookExit:
    # INVARIANT: whatever the input is, no action passes that the enforcer did not allow.
    try:
        hook = read_hook(raw)
    except DemurError as error:
        return fallback_deny(None, refusal_line("REQUEST_INVALID", error.problem))
    on_hook(hook)
    try:
        output = judge_event(hook)
        return HookExit(stdout=f"{json.dumps(output)}\n" if output else "")
    except BaseException as error:  # noqa: BLE001 - a failure is no permission
        return fallback_deny(hook.event, refusal_line_for(error), hook.members)


def _judge_once(hook: Hook, config: HookConfig, project: str) -> dict[str, Any]:
    if hook.event not in GUARDED_SURFACES:
        return unguarded_output(*hook, read_pins(config.pins))
    with HookRuntime(config, GUARDED_SURFACES[hook.event]) as standing:
        return standing.judge(hook, project)

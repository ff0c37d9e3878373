"""The runtime of the hook command: an open gate, guards, and histories."""

from collections.abc import Sequence
from threading import Lock
from types import TracebackType
from typing import Any, Self

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.errors import DemurError
from demur.gate.config import open_gate
from demur.gate.pipeline import GuardStep, GuardPipeline
from demur.gate.standard import standard_pipeline
from demur.guards.builtin import load_builtin
from demur.integrations.claude_code.file_histories import FileHistories
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.judging import CLAUDE_CODE, GUARDED_SURFACES, judge_hook
from demur.integrations.claude_code.own_files import OwnFilesGuard
from demur.integrations.claude_code.own_paths import protected_paths
from demur.integrations.claude_code.pins import read_pins
from demur.integrations.claude_code.terms import HookConfig, config_files, gate_config, files_stamp

__all__ = ["HookRuntime"]

_ALL_SURFACES = tuple(dict.fromkeys(one for many in GUARDED_SURFACES.values() for one in many))
_STATE_MODE = 0o700
_MAX_PROJECTS = 32
_SUBJECT = {"type": "agent", "id": CLAUDE_CODE}


class HookRuntime:
    """An open gate, and an enforcer for each project. Close it when done.

    Its guards are those of `surfaces`: a process that judges one event needs no others.
    """

    def __init__(self, config: HookConfig, surfaces: Sequence[Surface] = _ALL_SURFACES) -> None:
        config.state.mkdir(mode=_STATE_MODE, parents=True, exist_ok=True)
        self._config = config
        self._stamp = files_stamp(config)
        self._pins = read_pins(config.pins)
        self._files = tuple(config_files(config))
        self._has_call_guard = Surface.TOOL_CALL in surfaces
        self._steps = standard_pipeline(*surfaces).steps
        self._histories = FileHistories(config.state / "sessions")
        self._enforcers: dict[str, Enforcer] = {}
        self._lock = Lock()
        # Last, so that nothing is left open if a setting is invalid.
        self._gate = open_gate(gate_config(config))

    @property
    def is_fresh(self) -> bool:
        """Whether no file of its config has changed since."""
        try:
            return files_stamp(self._config) == self._stamp
        except DemurError:
            return False

    def judge(self, hook: Hook, project: str) -> dict[str, Any]:
        """Return the output of a hook; its agent may work in the folder `project`."""
        return judge_hook(hook, self._enforcer_for(project), self._config.style, pins=self._pins)

    def warm_up(self) -> None:
        """Have the guards load their rules before the first event; nothing is recorded."""
        by = Enforcer(pipeline=GuardPipeline(self._steps, registry=self._gate.registry))
        by.check_prompt("Hello.")
        by.check_tool_call("Bash", {"command": "ls"})
        by.check_tool_result("Bash", "nothing")

    def close(self) -> None:
        """Close the gate."""
        self._gate.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _enforcer_for(self, project: str) -> Enforcer:
        with self._lock:
            if project not in self._enforcers:
                if len(self._enforcers) >= _MAX_PROJECTS:
                    self._enforcers.clear()
                self._enforcers[project] = self._new_enforcer(project)
            return self._enforcers[project]

    def _new_enforcer(self, project: str) -> Enforcer:
        steps = [_with_workspace(project, step) for step in self._steps]
        if self._has_call_guard:
            own = protected_paths(self._files, [self._config.state], project)
            steps.append(GuardStep(OwnFilesGuard(), own, name="own_files"))
        return Enforcer(
            self._gate,
            pipeline=GuardPipeline(steps, registry=self._gate.registry),
            subject=_SUBJECT,
            tenant=self._config.tenant,
            histories=self._histories,
        )


def _with_workspace(project: str, step: GuardStep) -> GuardStep:
    """Return the step with the agent's folder, if it is the guard of commands."""
    if not project or step.guard is not load_builtin(Surface.CODE_EXECUTION):
        return step
    return step._replace(config={"workspace": [project]})

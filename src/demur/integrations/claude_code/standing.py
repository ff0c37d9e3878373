"""The runtime of the hook command: an open gate, guards, and histories."""

from collections.abc import Sequence
from threading import Lock
from types import TracebackType
from typing import Any, Self

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.errors import DemurError
from demur.gate.config import open_gate
from demur.gate.pipeline import GuardStep, Pipeline
from demur.gate.standard import standard_pipeline
from demur.guards.builtin import builtin_guard
from demur.integrations.claude_code.file_histories import FileHistories
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.judging import CLAUDE_CODE, SURFACES, judge
from demur.integrations.claude_code.own_files import OwnFilesGuard
from demur.integrations.claude_code.own_paths import own_paths
from demur.integrations.claude_code.pins import read_pins
from demur.integrations.claude_code.terms import Terms, files_of, settings_of, stamp_of

__all__ = ["Standing"]

_EVERY_SURFACE = tuple(dict.fromkeys(one for many in SURFACES.values() for one in many))
_OWNER_ONLY = 0o700
_MOST_PROJECTS = 32
_SUBJECT = {"type": "agent", "id": CLAUDE_CODE}


class Standing:
    """An open gate, and an enforcer for each project. Close it when done.

    Its guards are those of `surfaces`: a process that judges one event needs no others.
    """

    def __init__(self, terms: Terms, surfaces: Sequence[Surface] = _EVERY_SURFACE) -> None:
        terms.state.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        self._terms = terms
        self._stamp = stamp_of(terms)
        self._pins = read_pins(terms.pins)
        self._files = tuple(files_of(terms))
        self._guards_calls = Surface.TOOL_CALL in surfaces
        self._steps = standard_pipeline(*surfaces).steps
        self._histories = FileHistories(terms.state / "sessions")
        self._enforcers: dict[str, Enforcer] = {}
        self._lock = Lock()
        # Last, so that nothing is left open if a setting is invalid.
        self._gate = open_gate(settings_of(terms))

    @property
    def is_fresh(self) -> bool:
        """Whether no file of its config has changed since."""
        try:
            return stamp_of(self._terms) == self._stamp
        except DemurError:
            return False

    def judge(self, hook: Hook, project: str) -> dict[str, Any]:
        """Return the output of a hook; its agent may work in the folder `project`."""
        return judge(hook, self._enforcer(project), self._terms.manner, pins=self._pins)

    def rehearse(self) -> None:
        """Have the guards load their rules before the first event; nothing is recorded."""
        by = Enforcer(pipeline=Pipeline(self._steps, registry=self._gate.registry))
        by.prompt("Hello.")
        by.tool_call("Bash", {"command": "ls"})
        by.tool_result("Bash", "nothing")

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

    def _enforcer(self, project: str) -> Enforcer:
        with self._lock:
            if project not in self._enforcers:
                if len(self._enforcers) >= _MOST_PROJECTS:
                    self._enforcers.clear()
                self._enforcers[project] = self._new_enforcer(project)
            return self._enforcers[project]

    def _new_enforcer(self, project: str) -> Enforcer:
        steps = [_at_home(project, step) for step in self._steps]
        if self._guards_calls:
            own = own_paths(self._files, [self._terms.state], project)
            steps.append(GuardStep(OwnFilesGuard(), own, name="own_files"))
        return Enforcer(
            self._gate,
            pipeline=Pipeline(steps, registry=self._gate.registry),
            subject=_SUBJECT,
            tenant=self._terms.tenant,
            histories=self._histories,
        )


def _at_home(project: str, step: GuardStep) -> GuardStep:
    """Return the step with the agent's folder, if it is the guard of commands."""
    if not project or step.guard is not builtin_guard(Surface.CODE_EXECUTION):
        return step
    return step._replace(config={"workspace": [project]})

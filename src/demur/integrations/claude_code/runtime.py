"""Run one hook: its config, and the open gate and guards behind it.

Each hook is a process of its own, so the histories of tool calls lie in files.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from msgspec.structs import replace

from demur.codes.loading import ENVIRONMENT_VARIABLE
from demur.codes.vocabulary import Surface
from demur.enforce.context import drive
from demur.enforce.enforcer import Enforcer
from demur.enforce.history import FileHistories
from demur.enforce.opening import build_enforcer, resolve_links
from demur.errors import DemurError, error_reason
from demur.gate.config import Config, load_config, open_gate
from demur.gate.file_limiter import FileLimiter
from demur.gate.pipeline import GuardStep
from demur.integrations.claude_code.fallback import (
    HookExit,
    PinsError,
    fallback_deny,
    read_pins,
    refusal_line,
    unguarded_output,
)
from demur.integrations.claude_code.hook import (
    CARRIED,
    CLAUDE_CODE,
    GUARDED_SURFACES,
    Hook,
    HookEventError,
    HookStyle,
    judge_steps,
    read_hook,
)
from demur.integrations.claude_code.self_protection import OwnFilesGuard, protected_paths
from demur.store.backend import StorageError

_FOLDER_MODE = 0o700
_POLICY = Path(__file__).with_name("policy.yaml")


class HookConfig(NamedTuple):
    """The operator's options.

    Without `config`, guards decide by themselves, and records go to a store in the folder
    `state`, beside the histories of tool calls. `pins` are files of rules that outlive a
    compaction.
    """

    state: Path
    config: Path | None = None
    pins: tuple[str, ...] = ()
    tenant: str | None = None
    style: HookStyle = HookStyle()


def gate_config(hook_config: HookConfig) -> Config:
    """Return the settings of the gate.

    Raises:
        InputError: The file cannot be read, or a setting is invalid.
    """
    if hook_config.config is not None:
        return load_config(hook_config.config)
    # A power cut may cost the last records; a full sync would cost every call of every tool.
    store = str(hook_config.state / "demur.db")
    return Config(policy=str(_POLICY), store=store, durability="normal")


def files_stamp(hook_config: HookConfig) -> tuple[object, ...]:
    """Return a stamp that changes when a file of the config does.

    Raises:
        InputError: The settings are invalid.
    """
    return tuple(_file_stamp(path) for path in _files_read(hook_config, gate_config(hook_config)))


def config_files(hook_config: HookConfig) -> Iterator[Path]:
    """Yield the files that the config names, also those that demur writes.

    Raises:
        InputError: The settings are invalid.
    """
    config = gate_config(hook_config)
    yield from _files_read(hook_config, config)
    for place in (config.store, config.spool):
        path = (place or "").removeprefix("sqlite:///")
        if path and "://" not in path and path != ":memory:":
            yield Path(path)


def _files_read(hook_config: HookConfig, config: Config) -> Iterator[Path]:
    registries = (*config.registries, *os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep))
    own = (hook_config.config, config.policy, config.keys)
    files = (*own, *registries, *config.guards.files, *hook_config.pins)
    return (Path(path) for path in files if path)


def _file_stamp(path: Path) -> object:
    try:
        facts = path.stat()
    except OSError:
        return None
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino)


_ALL_SURFACES = tuple(dict.fromkeys(one for many in GUARDED_SURFACES.values() for one in many))
_MAX_PROJECTS = 32
_SUBJECT = {"type": "agent", "id": CLAUDE_CODE}


class HookRuntime:
    """An open gate, and an enforcer for each project. Close it when done.

    Its guards are those of `surfaces`: a process that judges one event needs no others.
    """

    def __init__(self, config: HookConfig, surfaces: Sequence[Surface] = _ALL_SURFACES) -> None:
        try:
            config.state.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        except OSError as error:
            problem = f"the state folder cannot be created: {error_reason(error)}"
            raise StorageError(problem, where=str(config.state)) from error
        self._config = config
        self._stamp = files_stamp(config)
        self._pins = read_pins(config.pins)
        self._files = tuple(config_files(config))
        self._surfaces = tuple(surfaces)
        settings = gate_config(config)
        self._guards = settings.guards
        self._histories = FileHistories(config.state / "sessions")
        # Without a daemon each event has a process of its own, so counts have to outlive it.
        counts_here = self._guards.limits and self._guards.limiter is None
        self._limiter = FileLimiter(config.state / "rates.json") if counts_here else None
        self._enforcers: dict[tuple[str, bool], Enforcer] = {}
        self._lock = Lock()
        # Last, so that nothing is left open if a setting is invalid.
        self._gate = open_gate(settings)

    @property
    def is_fresh(self) -> bool:
        """Whether no file of its config has changed since."""
        try:
            return files_stamp(self._config) == self._stamp
        except DemurError:
            return False

    def judge(self, hook: Hook, project: str) -> dict[str, Any]:
        """Return the output of a hook; its agent may work in the folder `project`.

        Without one, that is the folder in which the agent works now, unless that is a whole home
        or disk: an agent goes there by itself. Relative paths start there in any case.
        """
        now = hook.get_text("cwd") or ""
        folder = project or (now if Path(now).is_absolute() else "")
        enforcer = self._enforcer_for(folder, is_workspace=bool(project) or _is_project(folder))
        style = self._config.style
        stops = self._histories
        return drive(judge_steps(hook, enforcer, style, pins=self._pins, stops=stops))

    def warm_up(self) -> None:
        """Have the guards load their rules before the first event; nothing is recorded."""
        enforcer = build_enforcer(None, self._guards, surfaces=self._surfaces)
        enforcer.check_prompt("Hello.")
        enforcer.check_tool_call("Bash", {"command": "ls"})
        enforcer.check_tool_result("Bash", "nothing")

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

    def _enforcer_for(self, folder: str, *, is_workspace: bool) -> Enforcer:
        key = (folder, is_workspace)
        with self._lock:
            if key not in self._enforcers:
                if len(self._enforcers) >= _MAX_PROJECTS:
                    self._enforcers.clear()
                self._enforcers[key] = self._new_enforcer(folder, is_workspace=is_workspace)
            return self._enforcers[key]

    def _new_enforcer(self, folder: str, *, is_workspace: bool) -> Enforcer:
        def add_workspace(config: Any) -> Any:
            return replace(config, workspace=(*config.workspace, folder))

        own_files = protected_paths(self._files, [self._config.state], folder)
        own_guard = GuardStep(OwnFilesGuard(), own_files, name="own_files")
        return build_enforcer(
            self._gate,
            self._guards,
            surfaces=self._surfaces,
            changes={Surface.CODE_EXECUTION: add_workspace} if is_workspace else None,
            steps=[own_guard] if Surface.TOOL_CALL in self._surfaces else (),
            resolve_path=partial(resolve_links, folder=folder),
            subject=_SUBJECT,
            tenant=self._config.tenant,
            histories=self._histories,
            limiter=self._limiter,
            carried=CARRIED,
        )


def _is_project(folder: str) -> bool:
    """Return whether a folder is neither a whole disk nor a whole home."""
    real = os.path.realpath(folder) if folder else os.sep
    return real not in {os.path.realpath(os.sep), os.path.realpath(Path.home())}


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

    def judge_event(hook: Hook) -> dict[str, Any]:
        if hook.event not in GUARDED_SURFACES:
            return unguarded_output(*hook, read_pins(config.pins))
        with HookRuntime(config, GUARDED_SURFACES[hook.event]) as runtime:
            return runtime.judge(hook, project)

    return _judge_input(raw, judge_event, on_hook)


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

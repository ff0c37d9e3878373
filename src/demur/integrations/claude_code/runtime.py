"""Run one hook: its config, the open gate and guards behind it, and the histories of calls.

Each hook is a process of its own, so the histories of tool calls lie in files: one for each run,
named by a digest and readable by its owner alone. A file that cannot be read back counts as none.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from demur.codes.loading import ENVIRONMENT_VARIABLE
from demur.codes.vocabulary import Surface
from demur.enforce.context import drive
from demur.enforce.enforcer import Enforcer
from demur.errors import DemurError
from demur.gate.config import Config, load_config, open_gate
from demur.gate.pipeline import GuardPipeline, GuardStep, standard_pipeline
from demur.guards.builtin import load_builtin
from demur.guards.tool_loop import CallHistory, RecordedCall
from demur.integrations.claude_code.fallback import (
    HookExit,
    PinsError,
    fallback_deny,
    read_pins,
    refusal_line,
    unguarded_output,
)
from demur.integrations.claude_code.hook import (
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
        InputError: The settings cannot be used.
    """
    return tuple(_file_stamp(path) for path in _files_read(hook_config, gate_config(hook_config)))


def config_files(hook_config: HookConfig) -> Iterator[Path]:
    """Yield the files that the config names, also those that demur writes.

    Raises:
        InputError: The settings cannot be used.
    """
    config = gate_config(hook_config)
    yield from _files_read(hook_config, config)
    for place in (config.store, config.spool):
        path = (place or "").removeprefix("sqlite:///")
        if path and "://" not in path and path != ":memory:":
            yield Path(path)


def _files_read(hook_config: HookConfig, config: Config) -> Iterator[Path]:
    registries = (*config.registries, *os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep))
    files = (hook_config.config, config.policy, config.keys, *registries, *hook_config.pins)
    return (Path(path) for path in files if path)


def _file_stamp(path: Path) -> object:
    try:
        facts = path.stat()
    except OSError:
        return None
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino)


if sys.platform != "win32":
    import fcntl


_MAX_RUNS = 500
_MAX_HISTORY_BYTES = 4_000_000
_MAX_RESULT_LENGTH = 8_000
_FOLDER_MODE = 0o700
_decode_history = msgspec.json.Decoder(CallHistory).decode
_encode_history = msgspec.json.encode


class FileHistories:
    """Histories of runs in `folder`; above `max_runs`, the oldest are dropped."""

    def __init__(
        self, folder: Path, *, max_runs: int = _MAX_RUNS, max_bytes: int = _MAX_HISTORY_BYTES
    ) -> None:
        self._folder = folder
        self._max_runs = max_runs
        self._max_bytes = max_bytes

    def update(self, run: str, change: Callable[[CallHistory], CallHistory]) -> CallHistory:
        """Apply `change` to the history of a run, store it, and return it.

        Raises:
            OSError: It cannot be stored.
        """
        self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        path = self._folder / f"{sha256(run.encode('utf-8', 'surrogatepass')).hexdigest()}.json"
        with self._hold_lock():
            history = change(_read_history(path))
            self._write_history(path, history)
        return history

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        handle = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if sys.platform != "win32":
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write_history(self, path: Path, history: CallHistory) -> None:
        new = path.with_suffix(".new")
        is_first = not path.exists()
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(self._encode_bounded(history))
        new.replace(path)
        if is_first:
            files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
            for file in files[: -self._max_runs]:
                file.unlink(missing_ok=True)

    def _encode_bounded(self, history: CallHistory) -> bytes:
        """Return the encoded history: long results are cut, and the oldest calls only counted."""
        # INVARIANT: a stored history never exceeds the limit, and its counts are complete.
        kept = msgspec.structs.replace(history, calls=tuple(map(_cut_result, history.calls)))
        encoded = _encode_history(kept)
        while len(encoded) > self._max_bytes and kept.calls:
            earlier = kept.earlier.with_call(kept.calls[0])
            kept = CallHistory(calls=kept.calls[1:], earlier=earlier)
            encoded = _encode_history(kept)
        return encoded


def _cut_result(call: RecordedCall) -> RecordedCall:
    result = call.result
    if isinstance(result, str) and len(result) > _MAX_RESULT_LENGTH:
        return msgspec.structs.replace(call, result=result[:_MAX_RESULT_LENGTH])
    return call


def _read_history(path: Path) -> CallHistory:
    try:
        return _decode_history(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return CallHistory()


_ALL_SURFACES = tuple(dict.fromkeys(one for many in GUARDED_SURFACES.values() for one in many))
_MAX_PROJECTS = 32
_SUBJECT = {"type": "agent", "id": CLAUDE_CODE}


class HookRuntime:
    """An open gate, and an enforcer for each project. Close it when done.

    Its guards are those of `surfaces`: a process that judges one event needs no others.
    """

    def __init__(self, config: HookConfig, surfaces: Sequence[Surface] = _ALL_SURFACES) -> None:
        config.state.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
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
        enforcer, style = self._enforcer_for(project), self._config.style
        return drive(judge_steps(hook, enforcer, style, pins=self._pins))

    def warm_up(self) -> None:
        """Have the guards load their rules before the first event; nothing is recorded."""
        enforcer = Enforcer(pipeline=GuardPipeline(self._steps, registry=self._gate.registry))
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

    def _enforcer_for(self, project: str) -> Enforcer:
        with self._lock:
            if project not in self._enforcers:
                if len(self._enforcers) >= _MAX_PROJECTS:
                    self._enforcers.clear()
                self._enforcers[project] = self._new_enforcer(project)
            return self._enforcers[project]

    def _new_enforcer(self, project: str) -> Enforcer:
        shell_guard = load_builtin(Surface.CODE_EXECUTION) if project else None
        workspace = {"workspace": [project]}
        steps = [
            step._replace(config=workspace) if step.guard is shell_guard else step
            for step in self._steps
        ]
        if self._has_call_guard:
            protected = protected_paths(self._files, [self._config.state], project)
            steps.append(GuardStep(OwnFilesGuard(), protected, name="own_files"))
        return Enforcer(
            self._gate,
            pipeline=GuardPipeline(steps, registry=self._gate.registry),
            subject=_SUBJECT,
            tenant=self._config.tenant,
            histories=self._histories,
        )


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

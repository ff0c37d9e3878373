"""The enforcer: checks everything an agent asks, calls, reads and says against guards and gate.

Frameworks differ in where they allow a check and in how they want to hear a refusal. What is
checked, decided and recorded is the same everywhere and lives here; an adapter only translates.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from demur.codes.loading import default_registry
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.enforce.checks import Authority, Steps, SurfaceChecks, adrive, drive
from demur.enforce.context import ACTION_TYPE, CallContext
from demur.enforce.describe import DescribeCall, describe_call, to_json_value
from demur.enforce.history import CallHistories, LocalCallHistories
from demur.enforce.result import CheckResult
from demur.enforce.streams import AnswerStream, StepDrivers, max_answer_length, stream_config_for
from demur.errors import DemurError, InputError, InputTypeError
from demur.gate.config import Config, find_config, load_config, open_gate
from demur.gate.gate import Gate
from demur.gate.monitor import Monitor
from demur.gate.pipeline import GuardPipeline, standard_pipeline
from demur.guards.tool_call import ToolCall
from demur.guards.tool_manifest import ToolDefinition
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.policy.loader import parse_policy
from demur.store.opening import open_store

_SURFACES = (
    *(Surface.INPUT, Surface.OUTPUT, Surface.TOOL_CALL, Surface.TOOL_LOOP),
    *(Surface.TOOL_RESULT, Surface.RETRIEVAL, Surface.COMPACTION, Surface.CODE_EXECUTION),
)
_NO_CONTEXT = CallContext()
_log = logging.getLogger("demur")


class Enforcer:
    """Checks prompts, answers, tool calls and results by guards and gate. Thread- and task-safe.

    A check never raises: if guards, policy, store or the text itself fail, the result refuses
    with a runtime code. Without a gate, findings alone decide and nothing is stored. Without a
    pipeline, the built-in and installed guards run.

    `describe` turns a tool call into a request. `accepted` are constraints that the tools honour.
    `authority` looks up grants for a request. `commands` maps further tools that run commands to
    the argument that holds the command. `detect_prose` searches the text of a model for refusals.
    `histories` keeps the tool calls of each run for the guard against loops.
    """

    def __init__(
        self,
        gate: Gate | None = None,
        *,
        pipeline: GuardPipeline | None = None,
        subject: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        locale: str | None = None,
        describe: DescribeCall = describe_call,
        accepted: Collection[str] = (),
        authority: Authority | None = None,
        commands: Mapping[str, str] | None = None,
        detect_prose: bool = True,
        monitor: Monitor | None = None,
        histories: CallHistories | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if gate is not None and not isinstance(gate, Gate):
            raise InputTypeError.wrong_type("gate", "a `Gate`", gate)
        self.gate = gate
        self.pipeline = _agent_guards() if pipeline is None else pipeline
        self.monitor = monitor
        self.registry = default_registry() if gate is None else gate.registry
        self.locale = locale
        self._points = SurfaceChecks(
            gate,
            self.pipeline,
            self.registry,
            LocalCallHistories() if histories is None else histories,
            monotonic,
            subject,
            tenant,
            locale,
            describe,
            tuple(accepted),
            authority,
            commands or {},
            detect_prose,
            frozenset(self.pipeline.surfaces),
        )

    @classmethod
    def from_gate(cls, enforcer: "Enforcer | Gate") -> "Enforcer":
        """Return the enforcer itself, or for a gate an enforcer with the standard guards.

        Raises:
            InputTypeError: It is neither.
        """
        if isinstance(enforcer, Enforcer):
            return enforcer
        if not isinstance(enforcer, Gate):
            raise InputTypeError.wrong_type("enforcer", "an `Enforcer` or a `Gate`", enforcer)
        return cls(enforcer)

    def check_prompt(
        self, text: str, context: CallContext = _NO_CONTEXT, *, cost: int = 1
    ) -> CheckResult:
        """Check a prompt that is about to reach a model."""
        return self._drive_safely(
            self._points.check_prompt(text, context, cost), Surface.INPUT, context
        )

    async def acheck_prompt(
        self, text: str, context: CallContext = _NO_CONTEXT, *, cost: int = 1
    ) -> CheckResult:
        """Check a prompt, like `check_prompt`, without blocking the event loop."""
        return await self._adrive_safely(
            self._points.check_prompt(text, context, cost), Surface.INPUT, context
        )

    def check_answer(
        self, text: str, context: CallContext = _NO_CONTEXT, *, prompt: str | None = None
    ) -> CheckResult:
        """Check the answer of a model."""
        return self._drive_safely(
            self._points.check_answer(text, context, prompt), Surface.OUTPUT, context
        )

    async def acheck_answer(
        self, text: str, context: CallContext = _NO_CONTEXT, *, prompt: str | None = None
    ) -> CheckResult:
        """Check the answer of a model, like `check_answer`."""
        return await self._adrive_safely(
            self._points.check_answer(text, context, prompt), Surface.OUTPUT, context
        )

    def stream_answer(
        self, context: CallContext = _NO_CONTEXT, *, prompt: str | None = None
    ) -> AnswerStream:
        """Return a stream that guards an answer while it is written."""
        return AnswerStream(
            stream_config_for(self.pipeline, self.gate, self.registry),
            max_answer_length(self.pipeline, self.gate),
            prompt,
            check=lambda text, stopped: self._points.check_answer(text, context, prompt, stopped),
            drivers=StepDrivers(
                lambda steps: self._drive_safely(steps, Surface.OUTPUT, context),
                lambda steps: self._adrive_safely(steps, Surface.OUTPUT, context),
            ),
        )

    def check_tool_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str,
        context: CallContext = _NO_CONTEXT,
        *,
        tool: ToolDefinition | None = None,
        source: str = "",
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: DescribeCall | None = None,
        commands: Iterable[str] = (),
    ) -> CheckResult:
        """Check a tool call that is about to be made.

        `arguments` are values or the JSON text that a model wrote. `tool` is the definition that
        its server `source` presents now. `grants`, `accepted` and `describe` hold for this call
        only. `commands` are further texts that the call would run.
        """
        steps = self._points.check_tool_call(
            lambda: ToolCall(
                name=name, arguments=to_json_value(arguments), tool=tool, source=source
            ),
            context,
            grants=grants,
            accepted=accepted,
            describe=describe,
            commands=commands,
        )
        return self._drive_safely(steps, Surface.TOOL_CALL, context, name)

    async def acheck_tool_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str,
        context: CallContext = _NO_CONTEXT,
        *,
        tool: ToolDefinition | None = None,
        source: str = "",
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: DescribeCall | None = None,
        commands: Iterable[str] = (),
    ) -> CheckResult:
        """Check a tool call, like `check_tool_call`."""
        steps = self._points.check_tool_call(
            lambda: ToolCall(
                name=name, arguments=to_json_value(arguments), tool=tool, source=source
            ),
            context,
            grants=grants,
            accepted=accepted,
            describe=describe,
            commands=commands,
        )
        return await self._adrive_safely(steps, Surface.TOOL_CALL, context, name)

    def check_tool_result(
        self,
        name: str,
        result: Any,
        context: CallContext = _NO_CONTEXT,
        *,
        arguments: Mapping[str, Any] | str | None = None,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: DescribeCall | None = None,
    ) -> CheckResult:
        """Check the result of a tool: a text, or a value with a JSON form.

        If a guard finds something, the gate decides on the request of the call again. By default
        `arguments` are those of the last open call in the run.
        """
        steps = self._points.check_tool_result(
            name, result, context, arguments, grants=grants, accepted=accepted, describe=describe
        )
        return self._drive_safely(steps, Surface.TOOL_RESULT, context, name)

    async def acheck_tool_result(
        self,
        name: str,
        result: Any,
        context: CallContext = _NO_CONTEXT,
        *,
        arguments: Mapping[str, Any] | str | None = None,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: DescribeCall | None = None,
    ) -> CheckResult:
        """Check the result of a tool, like `check_tool_result`."""
        steps = self._points.check_tool_result(
            name, result, context, arguments, grants=grants, accepted=accepted, describe=describe
        )
        return await self._adrive_safely(steps, Surface.TOOL_RESULT, context, name)

    def read_refusal(
        self,
        answer: Any,
        context: CallContext = _NO_CONTEXT,
        *,
        text: str | None = None,
        prompt: str | None = None,
    ) -> CheckResult:
        """Read whether a model refused: from the response, the exception or its text.

        `text` is the answer, if there is one; `check_prompt` helps to classify it.
        """
        return self._drive_safely(
            self._points.read_refusal(answer, context, text, prompt), Surface.MODEL, context
        )

    async def aread_refusal(
        self,
        answer: Any,
        context: CallContext = _NO_CONTEXT,
        *,
        text: str | None = None,
        prompt: str | None = None,
    ) -> CheckResult:
        """Read whether a model refused, like `read_refusal`."""
        return await self._adrive_safely(
            self._points.read_refusal(answer, context, text, prompt), Surface.MODEL, context
        )

    def check_event(
        self, surface: Surface | str, event: Any, context: CallContext = _NO_CONTEXT, *, action: str
    ) -> CheckResult:
        """Check an event of any other surface, as part of `action`.

        Raises:
            ValueError: There is no such surface.
        """
        where = Surface(surface)
        return self._drive_safely(
            self._points.check_event(where, event, context, action), where, context, action
        )

    async def acheck_event(
        self, surface: Surface | str, event: Any, context: CallContext = _NO_CONTEXT, *, action: str
    ) -> CheckResult:
        """Check an event of any other surface, like `check_event`.

        Raises:
            ValueError: There is no such surface.
        """
        where = Surface(surface)
        return await self._adrive_safely(
            self._points.check_event(where, event, context, action), where, context, action
        )

    def close(self) -> None:
        """Close the gate and its store."""
        if self.gate is not None:
            self.gate.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Fail closed.

    def _drive_safely(
        self,
        steps: Steps[CheckResult],
        surface: Surface,
        context: CallContext,
        action: str = ACTION_TYPE,
    ) -> CheckResult:
        # INVARIANT: whatever fails in a check, its result refuses and nothing is raised.
        try:
            return drive(steps, self)
        except Exception as error:  # noqa: BLE001 - see above
            found = _failure_finding(error, surface)
        try:
            return drive(
                self._points.record_failure(surface, found, context, _recordable_action(action)),
                self,
            )
        except Exception:  # noqa: BLE001 - even the failure cannot be recorded
            return self._points.result_of_findings(surface, [found])

    async def _adrive_safely(
        self,
        steps: Steps[CheckResult],
        surface: Surface,
        context: CallContext,
        action: str = ACTION_TYPE,
    ) -> CheckResult:
        try:
            return await adrive(steps, self)
        except Exception as error:  # noqa: BLE001 - as above
            found = _failure_finding(error, surface)
        try:
            return await adrive(
                self._points.record_failure(surface, found, context, _recordable_action(action)),
                self,
            )
        except Exception:  # noqa: BLE001 - even the failure cannot be recorded
            return self._points.result_of_findings(surface, [found])


@cache
def _agent_guards() -> GuardPipeline:
    return standard_pipeline(*_SURFACES)


def _recordable_action(name: Any) -> str:
    """Return a name for the action that can be recorded, whatever the call was named."""
    text = name if isinstance(name, str) else type(name).__name__
    shown = "".join(each if each.isprintable() else "?" for each in text[:100])
    return shown.encode("utf-8", "replace").decode() or "unnamed"


def _failure_finding(error: Exception, surface: Surface) -> Finding:
    """Return the finding for a check that failed; it quotes nothing of the input."""
    if isinstance(error, InputError | InputTypeError):
        code, detail = ReasonCode.REQUEST_INVALID, f"{surface}: it cannot be judged as it is"
        evidence = {"where": str(getattr(error, "where", None) or surface)}
    else:
        code, detail = ReasonCode.INTERNAL_ERROR, f"{surface}: {type(error).__name__}"
        evidence = {"error": type(error).__name__}
        if not isinstance(error, DemurError):
            _log.exception("the check failed on surface %s", surface)
    return Finding(code=code, surface=Surface.RUNTIME, detail=detail, evidence=evidence)


_DEFAULT_STORE = "demur.db"


def open_enforcer(config: Config | Path | str | None = None, **settings: Any) -> Enforcer:
    """Return an enforcer with its own gate; `settings` are those of `Enforcer`. Close it when done.

    `config` is a `Config` or a settings file; by default the file that `DEMUR_CONFIG` names or
    `demur.toml` in the working directory. If there is none, the default policy for agents
    applies, and records go to `demur.db` in the working directory.

    Raises:
        InputError: The settings cannot be used.
        PolicyError: The policy cannot be used.
    """
    gate = _open_gate(config)
    try:
        return Enforcer(gate, **settings)
    except BaseException:
        gate.close()
        raise


def read_agent_policy() -> str:
    """Return the text of the default policy for agents."""
    return (files("demur.enforce") / "agent_policy.yaml").read_text(encoding="utf-8")


def _open_gate(config: Config | Path | str | None) -> Gate:
    given = find_config() if config is None else config
    if given is None:
        return Gate(
            parse_policy(read_agent_policy(), "agent_policy.yaml"), open_store(_DEFAULT_STORE)
        )
    return open_gate(given if isinstance(given, Config) else load_config(given))

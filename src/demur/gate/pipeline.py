"""The guard pipeline: run the guards of each surface in order, with timeouts, failing closed.

A pipeline only collects findings. Pass them to `Gate.decide`, where policy may tighten them or put
them in shadow. The monitor records every activation. `standard_pipeline` builds
the usual pipeline.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import msgspec

from demur.codes.loading import default_registry
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError, Problem
from demur.gate.clock import Clock, system_clock
from demur.gate.guard_run import (
    NO_FINDINGS,
    GuardFailure,
    GuardResult,
    WorkerThreads,
    run_guard,
    unavailable_finding,
)
from demur.gate.guard_settings import GUARD_TIMEOUT_S
from demur.gate.monitor import Activation, Monitor, preview_text
from demur.gate.rate import Limiter, RateGuard
from demur.guards.builtin import BUILTIN, event_type, load_builtin, parse_event, read_config
from demur.guards.contract import Guard, GuardError, event_text, guard_problems, installed_guards
from demur.guards.rate import RateLimit
from demur.model.finding import Action, Finding

OnFailure = Literal["closed", "open"]
# Runs the built-in guard of a surface on an event.
GuardRunner = Callable[[str, Any], GuardResult]

# Spans of these codes hold secrets and are hidden in previews.
_SECRET = frozenset({ReasonCode.SECRET_LEAK, ReasonCode.PII_DETECTED, ReasonCode.PROMPT_LEAK})
_SURFACE_OF_MODULE = {builtin.module: builtin.surface for builtin in BUILTIN}
# A guard may take long for a longer text, so it runs in a thread.
_MIN_THREAD_LENGTH = 50_000
# Further findings of one run are counted without a preview.
_MAX_PREVIEWS = 50
_STRICTNESS = (Action.BLOCK, Action.ESCALATE, Action.WARN)
_SURFACES = frozenset(Surface)
# The event of a rate guard is a key, not the built-in guard's `RateUse`.
_READABLE = frozenset(builtin.surface for builtin in BUILTIN) - {Surface.RATE}
_TEXTS = frozenset({Surface.INPUT, Surface.OUTPUT, Surface.TOOL_RESULT, Surface.RETRIEVAL})
_log = logging.getLogger("demur")


class GuardStep(NamedTuple):
    """A guard in a pipeline, and how it is run.

    `timeout_s`: with a timeout, the guard runs in a worker thread. `on_failure`: a guard that gives
    no verdict refuses (`closed`) or is only reported (`open`). `shadow`: findings are recorded
    and do not bind. `name`: the guard's name in activations.
    """

    guard: Guard
    config: Any = None
    timeout_s: float | None = None
    on_failure: OnFailure = "closed"
    shadow: bool = False
    name: str = ""


class _PreparedStep(NamedTuple):
    """A checked step, with what it needs to run."""

    step: GuardStep
    name: str
    surface: str
    config: Any
    workers: WorkerThreads | None
    blocking: bool
    builtin: bool


class GuardPipeline:
    """Runs guards. Safe to share between threads and tasks.

    `monitor` receives everything that guards do. Findings of `shadow_codes` are
    recorded and do not bind. An object that is no guard raises here; a guard that fails later
    gives a finding.
    """

    def __init__(
        self,
        steps: Iterable[GuardStep],
        *,
        monitor: Monitor | None = None,
        registry: Registry | None = None,
        shadow_codes: Collection[str] = (),
        clock: Clock = system_clock,
    ) -> None:
        self._registry = default_registry() if registry is None else registry
        # INVARIANT: a code in shadow covers no other code, nor one below it.
        self.shadow_codes = frozenset(shadow_codes)
        self._monitor = monitor
        self._clock = clock
        self._runner: GuardRunner | None = None
        running = [_prepare_step(step, self._registry) for step in steps]
        self._steps: Mapping[str, tuple[_PreparedStep, ...]] = {
            surface: tuple(prepared for prepared in running if prepared.surface == surface)
            for surface in dict.fromkeys(prepared.surface for prepared in running)
        }

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """The surfaces that have guards."""
        return tuple(map(Surface, self._steps))

    @property
    def steps(self) -> tuple[GuardStep, ...]:
        """The guards and their settings, by surface."""
        return tuple(prepared.step for steps in self._steps.values() for prepared in steps)

    def with_runner(self, runner: GuardRunner) -> Self:
        """Return the same pipeline with another way to run built-in guards, as in a process."""
        other = copy(self)
        other._runner = runner  # noqa: SLF001 - our own
        return other

    def run_builtin(self, surface: Surface | str, event: Any) -> GuardResult:
        """Return the unfiltered result of the built-in guard of a surface, for a runner."""
        steps = (one for one in self._steps.get(surface, ()) if one.builtin)
        prepared = next(steps, None)
        if prepared is None:
            return NO_FINDINGS
        guard = prepared.step.guard
        return run_guard(guard, event, prepared.config, registry=self._registry)

    def run(
        self, surface: Surface | str, event: Any, *, monitor: Monitor | None = None
    ) -> list[Finding]:
        """Return what the guards of a surface find in an event, or that one gave no verdict.

        `monitor` replaces the pipeline's own monitor for this run.

        Raises:
            InputError: There is no such surface, or the event cannot be read as one of it.
            InputTypeError: The event is of the wrong type.
        """
        found: list[Finding] = []
        value = _read_event(surface, event)
        watch = self._monitor if monitor is None else monitor
        for prepared in self._steps.get(surface, ()):
            began = time.perf_counter()
            result = self._run_step(prepared, value)
            if result is not NO_FINDINGS or watch is not None:  # most results are empty
                found += self._report_result(prepared, value, result, watch, began)
        return found

    async def arun(
        self, surface: Surface | str, event: Any, *, monitor: Monitor | None = None
    ) -> list[Finding]:
        """Return what the guards find, like `run`, without blocking the event loop."""
        found: list[Finding] = []
        value = _read_event(surface, event)
        watch = self._monitor if monitor is None else monitor
        for prepared in self._steps.get(surface, ()):
            began = time.perf_counter()
            result = await self._arun_step(prepared, value)
            if result is not NO_FINDINGS or watch is not None:
                found += self._report_result(prepared, value, result, watch, began)
        return found

    def _run_step(self, prepared: _PreparedStep, event: Any) -> GuardResult:
        guard, timeout_s = prepared.step.guard, prepared.step.timeout_s
        if self._runner is not None and prepared.builtin:
            return self._runner(prepared.surface, event)
        if prepared.workers is None or timeout_s is None:
            return run_guard(guard, event, prepared.config, registry=self._registry)
        call = partial(run_guard, guard, event, prepared.config, registry=self._registry)
        try:
            return prepared.workers.run(call, timeout_s)
        except TimeoutError:
            return _timeout_result(timeout_s)

    async def _arun_step(self, prepared: _PreparedStep, event: Any) -> GuardResult:
        guard, timeout_s = prepared.step.guard, prepared.step.timeout_s
        if self._runner is not None and prepared.builtin:
            return await asyncio.to_thread(self._runner, prepared.surface, event)
        call = partial(run_guard, guard, event, prepared.config, registry=self._registry)
        if prepared.workers is None or timeout_s is None:
            in_thread = prepared.blocking or len(event_text(event) or "") > _MIN_THREAD_LENGTH
            return await asyncio.to_thread(call) if in_thread else call()
        try:
            return await prepared.workers.arun(call, timeout_s)
        except TimeoutError:
            return _timeout_result(timeout_s)

    def _report_result(
        self,
        prepared: _PreparedStep,
        event: Any,
        result: GuardResult,
        monitor: Monitor | None,
        began: float,
    ) -> list[Finding]:
        """Return the findings that count, and report the run to the monitor."""
        milliseconds = (time.perf_counter() - began) * 1000
        report = _GuardRunReport(monitor, prepared, self._clock, milliseconds)
        found = list(self._effective_findings(prepared, event, result, report))
        report.count_run(found)
        if getattr(prepared.step.guard, "is_degraded", False):
            note = "counts that should be shared are kept in this process"
            report.report_activation(ReasonCode.GUARDRAIL_PARTIAL, Action.WARN, note=note)
        return found

    def _effective_findings(
        self, prepared: _PreparedStep, event: Any, result: GuardResult, report: "_GuardRunReport"
    ) -> Iterator[Finding]:
        hidden = [f.span for f in result.findings if f.code in _SECRET and f.span is not None]
        for number, found in enumerate(result.findings):
            is_shadow = prepared.step.shadow or found.code in self.shadow_codes
            counted = self._shadow_finding(found) if is_shadow else found
            action = Action.WARN if counted is None else counted.action
            text = event_text(event) if number < _MAX_PREVIEWS else None
            preview = partial(preview_text, text, found.span, hide=hidden)
            report.report_activation(found.code, action, preview, shadow=is_shadow)
            if counted is not None:
                yield counted
        if result.failure is not None:
            yield from self._failure_findings(prepared, result.failure, report)

    def _failure_findings(
        self, prepared: _PreparedStep, failure: GuardFailure, report: "_GuardRunReport"
    ) -> Iterator[Finding]:
        step, name = prepared.step, prepared.name
        # INVARIANT: a guard that gives no verdict refuses, unless the operator opened it.
        closed = step.on_failure == "closed" and not step.shadow
        note = f"{failure.note}; {failure.help}" if failure.help else failure.note
        _log.warning("the guard %s gave no verdict: %s", name, note)
        action = Action.BLOCK if closed else Action.WARN
        report.report_activation(ReasonCode.GUARDRAIL_UNAVAILABLE, action, note=note)
        if closed:
            yield unavailable_finding(name, prepared.surface, failure, step.timeout_s)

    def _shadow_finding(self, finding: Finding) -> Finding | None:
        """Return a finding as it counts in shadow mode, or None if it does not count."""
        entry = self._registry[finding.code]
        if entry.obligations:
            # Obligations hold in shadow mode too: a person may be in danger.
            return finding
        if not entry.decided:
            return None
        evidence = {**finding.evidence, "shadow": True}
        return msgspec.structs.replace(finding, action=Action.WARN, evidence=evidence)


class _GuardRunReport(NamedTuple):
    """Reports one run of one guard to a monitor."""

    monitor: Monitor | None
    prepared: _PreparedStep
    clock: Clock
    milliseconds: float

    def count_run(self, findings: list[Finding]) -> None:
        if self.monitor is not None:
            surface, name = self.prepared.surface, self.prepared.name
            strictest = min((_STRICTNESS.index(f.action) for f in findings), default=None)
            action = "" if strictest is None else str(_STRICTNESS[strictest])
            self._call_monitor(partial(self.monitor.count_run, surface, name, action))
            # `record_duration` is optional: only monitors that measure durations have it.
            record = getattr(self.monitor, "record_duration", None)
            if record is not None:
                self._call_monitor(partial(record, surface, name, self.milliseconds / 1000))

    def report_activation(
        self,
        code: str,
        action: str,
        show: Callable[[], str] = str,
        *,
        note: str = "",
        shadow: bool = False,
    ) -> None:
        if self.monitor is not None:
            activation = (str(code), str(action), show, note)
            record = partial(self._record_activation, self.monitor, *activation, shadow=shadow)
            self._call_monitor(record)

    def _record_activation(
        self,
        monitor: Monitor,
        code: str,
        action: str,
        show: Callable[[], str],
        note: str,
        *,
        shadow: bool,
    ) -> None:
        activation = Activation(
            time=self.clock(),
            surface=self.prepared.surface,
            guard=self.prepared.name,
            code=code,
            action=action,
            preview=show(),
            milliseconds=round(self.milliseconds, 3),
            shadow=shadow or self.prepared.step.shadow,
            note=note,
        )
        monitor.record(activation)

    @staticmethod
    def _call_monitor(call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:  # noqa: BLE001 - a monitor may raise anything
            _log.exception("the guard monitor failed")


def _prepare_step(step: GuardStep, registry: Registry) -> _PreparedStep:
    if not isinstance(step, GuardStep):
        raise InputTypeError.wrong_type("a step", "a `GuardStep`", step)
    guard = step.guard
    name = step.name or str(getattr(guard, "__name__", type(guard).__name__))
    problems = [Problem(f"guard `{name}`", text) for text in guard_problems(guard, registry)]
    if problems:
        raise GuardError.from_problems(problems)
    if step.on_failure not in {"closed", "open"}:
        problem = f"unknown `on_failure` value `{step.on_failure}`"
        raise InputError(problem, where=f"guard `{name}`", help="`closed` or `open`")
    if step.timeout_s is not None and not 0 < step.timeout_s <= 3600:
        raise InputError("a timeout is above 0 and at most 3600 seconds", where=f"guard `{name}`")
    builtin = _SURFACE_OF_MODULE.get(str(getattr(guard, "__name__", "")))
    if builtin is not None:
        config = read_config(builtin, step.config)
    else:
        config = getattr(guard, "CONFIG", None) if step.config is None else step.config
    if step.timeout_s is not None and builtin in _TEXTS:
        # Compile the rules now, so that the first event does not time out.
        run_guard(guard, parse_event(builtin, "ordinary words"), config, registry=registry)
    return _PreparedStep(
        step,
        # In reports, a built-in guard is named by its surface.
        str(_SURFACE_OF_MODULE.get(name, name)),
        str(guard.SURFACE),
        config,
        None if step.timeout_s is None else WorkerThreads(),
        # Built-in guards are fast; other guards may block.
        bool(getattr(guard, "blocking", builtin is None)),
        builtin is not None,
    )


def _read_event(surface: Surface | str, event: Any) -> Any:
    if surface in _READABLE:
        return event if isinstance(event, event_type(surface)) else parse_event(surface, event)
    if surface not in _SURFACES:
        known = ", ".join(Surface)
        raise InputError(f"unknown surface `{str(surface)[:40]}`", help=f"one of {known}")
    return event


def _timeout_result(timeout_s: float) -> GuardResult:
    return GuardResult(failure=GuardFailure("timeout", f"it took longer than {timeout_s:g} s"))


_DEFAULT_SURFACES = (Surface.INPUT, Surface.OUTPUT)


def standard_pipeline(
    *surfaces: Surface | str,
    limits: Sequence[RateLimit] = (),
    limiter: Limiter | None = None,
    monitor: Monitor | None = None,
    timeout_s: float | None = GUARD_TIMEOUT_S,
    shadow: Collection[str] = (),
    configs: Mapping[str, Any] | None = None,
    steps: Iterable[GuardStep] = (),
    **more: Any,
) -> GuardPipeline:
    """Return a pipeline of the guards of `surfaces`; by default those of input and output.

    `limits` add a rate guard. `shadow` names surfaces or installed guards that are recorded and do
    not bind. `configs` are settings of built-in guards by surface, `steps` further guards.
    `timeout_s` applies to guards of other packages: the built-in guards take linear time.

    Raises:
        InputError: There is no such surface.
        GuardError: An installed guard cannot be used.
    """
    if Surface.RATE in surfaces:
        raise InputError("a rate needs limits", where="rate", help="pass `limits=[RateLimit(...)]`")
    chosen = surfaces or _DEFAULT_SURFACES
    installed = [(surface, other) for surface in chosen for other in installed_guards(surface)]
    for name in shadow:
        if name not in {*chosen, Surface.RATE, *(other.name for _, other in installed)}:
            raise InputError(f"there is no guard of `{name}` to shadow", where="shadow")
    all_steps = []
    for surface in chosen:
        config = (configs or {}).get(surface)
        all_steps.append(GuardStep(load_builtin(surface), config, shadow=surface in shadow))
        for at, other in installed:
            if at == surface:
                assert other.guard is not None
                in_shadow = surface in shadow or other.name in shadow
                settings = (other.guard, other.config, timeout_s)
                all_steps.append(GuardStep(*settings, shadow=in_shadow, name=other.name))
    if limits:
        guard = RateGuard(*limits, limiter=limiter)
        all_steps.append(GuardStep(guard, shadow=Surface.RATE in shadow, name="rate"))
    return GuardPipeline([*all_steps, *steps], monitor=monitor, **more)

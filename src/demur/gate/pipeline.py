"""The guard pipeline: run the guards of each surface in order, with timeouts, failing closed.

A pipeline only collects findings and the scores of models. Pass them to `Gate.decide`, where policy
may tighten them or put them in shadow. The monitor records every activation. `standard_pipeline`
builds the usual pipeline.
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
    GuardRunReport,
    WorkerThreads,
    run_guard,
    unavailable_finding,
)
from demur.gate.guard_settings import GUARD_TIMEOUT_S
from demur.gate.monitor import Monitor, preview_text
from demur.gate.rate import Limiter, RateGuard
from demur.gate.scoring import (
    PipelineResult,
    ScorerGuard,
    ScorerResult,
    ScorerRun,
    ScoreWindows,
    check_scorers,
)
from demur.guards.builtin import (
    BUILTIN,
    EMPTY_EVENTS,
    event_type,
    load_builtin,
    parse_event,
    read_config,
)
from demur.guards.contract import Guard, GuardError, event_text, guard_problems, installed_guards
from demur.guards.rate import RateLimit
from demur.model.finding import Action, Finding
from demur.model.record import ModelRef
from demur.scan.cache import LoadingDeferredError, defer_loading
from demur.scorers.contract import Scorer, ScorerText
from demur.scorers.learned import LEARNED_SURFACES, load_learned_scorers

OnFailure = Literal["closed", "open", "signal_missing"]
# Runs the built-in guard of a surface on an event.
GuardRunner = Callable[[str, Any], GuardResult]

# Spans of these codes hold secrets and are hidden in previews.
_SECRET = frozenset({ReasonCode.SECRET_LEAK, ReasonCode.PII_DETECTED, ReasonCode.PROMPT_LEAK})
_SURFACE_OF_MODULE = {builtin.module: builtin.surface for builtin in BUILTIN}
# A guard may take long for a longer text, so it runs in a thread.
_MIN_THREAD_LENGTH = 50_000
# Prose, and a word that may be encoded.
_WARM_TEXT = "ordinary words, and T3JkaW5hcnkgd29yZHMgaW4gYmFzZTY0"
# Further findings of one run are counted without a preview.
_MAX_PREVIEWS = 50
_ALL_SURFACES = frozenset(Surface)
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
    """Runs guards and, at the same time, scorers. Safe to share between threads and tasks.

    `monitor` receives everything that guards do. Findings of `shadow_codes` and of the scorers in
    `shadow_scorers` are recorded and do not bind. Scorers score `scored_surfaces` alone. An object
    that is no guard raises here; a guard that fails later gives a finding.
    """

    def __init__(
        self,
        steps: Iterable[GuardStep],
        *,
        monitor: Monitor | None = None,
        registry: Registry | None = None,
        shadow_codes: Collection[str] = (),
        scorers: Iterable[Scorer] = (),
        shadow_scorers: Collection[str] = (),
        scored_surfaces: Collection[str] = _ALL_SURFACES,
        clock: Clock = system_clock,
    ) -> None:
        self._registry = default_registry() if registry is None else registry
        # INVARIANT: a code in shadow covers no other code, nor one below it.
        self.shadow_codes = frozenset(shadow_codes)
        self._monitor = monitor
        self._clock = clock
        self._runner: GuardRunner | None = None
        self._can_stream = False
        running = [_prepare_step(step, self._registry) for step in steps]
        self._steps: Mapping[str, tuple[_PreparedStep, ...]] = {
            surface: tuple(prepared for prepared in running if prepared.surface == surface)
            for surface in dict.fromkeys(prepared.surface for prepared in running)
        }
        self.scorers = check_scorers(scorers, self._registry)
        self._scorer_steps = _prepare_scorers(self.scorers, shadow_scorers, scored_surfaces)

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """The surfaces that have guards or scorers."""
        return tuple(map(Surface, dict.fromkeys((*self._steps, *self._scorer_steps))))

    @property
    def steps(self) -> tuple[GuardStep, ...]:
        """The guards and their settings, by surface."""
        return tuple(prepared.step for steps in self._steps.values() for prepared in steps)

    @property
    def asks_models(self) -> bool:
        """Whether a run may wait for a model."""
        return any(not scorer.is_local for scorer in self.scorers)

    def warm_up(self, surface: Surface | str, event: Any) -> None:
        """Have the guards of a surface compile their rules. No model is asked."""
        value = _read_event(surface, event)
        for prepared in self._steps.get(surface, ()):
            self._run_step(prepared, value)

    def warm(self) -> None:
        """Load all that the built-in guards and local models need. Nobody else is asked."""
        for surface, steps in self._steps.items():
            for prepared in steps:
                self._load_step(prepared, surface)
        for scorer in self.scorers:
            if scorer.is_local:
                scorer.score([ScorerText(_WARM_TEXT, surface=one) for one in scorer.surfaces])

    def _load_step(self, prepared: _PreparedStep, surface: str) -> None:
        """Have a built-in guard load its rules and all that it reads encoded text by."""
        if prepared.builtin:
            event = parse_event(surface, EMPTY_EVENTS.get(surface, _WARM_TEXT))
            run_guard(prepared.step.guard, event, prepared.config, registry=self._registry)

    def open_windows(self, prompt: str | None) -> ScoreWindows | None:
        """Return what scores an answer while it is written, or None if no scorer may hold it."""
        steps = self._scorer_steps.get(Surface.OUTPUT, ())
        scorers = [
            (prepared.step.guard.scorer, prepared.workers)
            for prepared in steps
            if isinstance(prepared.step.guard, ScorerGuard)
            and prepared.workers is not None
            and not prepared.step.shadow
        ]
        return ScoreWindows(scorers, prompt, self._registry) if scorers else None

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
        """Return what guards and scorers find in an event, or that one gave no verdict.

        `monitor` replaces the pipeline's own monitor for this run.

        Raises:
            InputError: There is no such surface, or the event cannot be read as one of it.
            InputTypeError: The event is of the wrong type.
        """
        return self.inspect(surface, event, monitor=monitor).findings

    async def arun(
        self, surface: Surface | str, event: Any, *, monitor: Monitor | None = None
    ) -> list[Finding]:
        """Return what guards and scorers find, like `run`, without blocking the event loop."""
        return (await self.ainspect(surface, event, monitor=monitor)).findings

    def inspect(
        self, surface: Surface | str, event: Any, *, monitor: Monitor | None = None
    ) -> PipelineResult:
        """Return the findings, like `run`, together with the scores of models.

        Pass `findings`, `signals` and `models` to `Gate.decide`, the latter two as `guard_signals`
        and `guard_models`.

        Raises:
            InputError: There is no such surface, or the event cannot be read as one of it.
            InputTypeError: The event is of the wrong type.
        """
        found = PipelineResult([])
        value = _read_event(surface, event)
        watch = self._monitor if monitor is None else monitor
        scoring = self._begin_scoring(surface, value)
        for _, run in scoring:
            run.start()
        for prepared in self._steps.get(surface, ()):
            began = time.perf_counter()
            result = self._run_step(prepared, value)
            if result is not NO_FINDINGS or watch is not None:  # most results are empty
                found.findings.extend(self._report_result(prepared, value, result, watch, began))
        for prepared, run in scoring:
            scored = self._report_scores(prepared, value, run.collect(), watch, run.began)
            found = found.add_scores(scored)
        return found

    async def ainspect(
        self, surface: Surface | str, event: Any, *, monitor: Monitor | None = None
    ) -> PipelineResult:
        """Return findings and scores, like `inspect`, without blocking the event loop."""
        found = PipelineResult([])
        value = _read_event(surface, event)
        watch = self._monitor if monitor is None else monitor
        scoring = self._begin_scoring(surface, value)
        try:
            for _, run in scoring:
                run.astart()
            for prepared in self._steps.get(surface, ()):
                began = time.perf_counter()
                result = await self._arun_step(prepared, value)
                if result is not NO_FINDINGS or watch is not None:
                    reported = self._report_result(prepared, value, result, watch, began)
                    found.findings.extend(reported)
            for prepared, run in scoring:
                scores = await run.acollect()
                scored = self._report_scores(prepared, value, scores, watch, run.began)
                found = found.add_scores(scored)
        finally:
            for _, run in scoring:
                run.cancel()
        return found

    def _begin_scoring(
        self, surface: Surface | str, event: Any
    ) -> "list[tuple[_PreparedStep, ScorerRun]]":
        """Return the scorers of a surface, each with its run on the event, not started yet."""
        found = []
        for prepared in self._scorer_steps.get(surface, ()):
            assert isinstance(prepared.step.guard, ScorerGuard)
            assert prepared.workers is not None
            run = ScorerRun(prepared.step.guard, event, prepared.workers)
            found.append((prepared, run))
        return found

    def _report_scores(
        self,
        prepared: _PreparedStep,
        event: Any,
        result: ScorerResult,
        monitor: Monitor | None,
        began: float,
    ) -> PipelineResult:
        """Return the findings and signals of a scorer, and report its run to the monitor."""
        found = self._report_result(prepared, event, result.guard, monitor, began)
        assert isinstance(prepared.step.guard, ScorerGuard)
        scorer = prepared.step.guard.scorer
        model = ModelRef(model=scorer.model, digest=scorer.digest)
        return PipelineResult(found, {scorer.name: result.signals}, {scorer.name: model})

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
            if prepared.blocking or len(event_text(event) or "") > _MIN_THREAD_LENGTH:
                return await asyncio.to_thread(call)
            # An answer is guarded while it is written, where nothing may wait.
            if prepared.surface == Surface.INPUT and not self._can_stream:
                await asyncio.to_thread(self._load_answers)
            try:
                with defer_loading():
                    return call()
            except LoadingDeferredError:
                return await asyncio.to_thread(call)
        try:
            return await prepared.workers.arun(call, timeout_s)
        except TimeoutError:
            return _timeout_result(timeout_s)

    def _load_answers(self) -> None:
        """Load what answers are guarded by."""
        for prepared in self._steps.get(Surface.OUTPUT, ()):
            self._load_step(prepared, Surface.OUTPUT)
        self._can_stream = True

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
        report = GuardRunReport(
            monitor,
            prepared.surface,
            prepared.name,
            prepared.step.shadow,
            self._clock,
            milliseconds,
        )
        found = list(self._effective_findings(prepared, event, result, report))
        report.count_run(found)
        if getattr(prepared.step.guard, "is_degraded", False):
            note = "counts that should be shared are kept in this process"
            report.report_activation(ReasonCode.GUARDRAIL_PARTIAL, Action.WARN, note=note)
        return found

    def _effective_findings(
        self, prepared: _PreparedStep, event: Any, result: GuardResult, report: GuardRunReport
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
        self, prepared: _PreparedStep, failure: GuardFailure, report: GuardRunReport
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


def _prepare_scorers(
    scorers: Iterable[Scorer], shadow: Collection[str], surfaces: Collection[str]
) -> Mapping[str, tuple[_PreparedStep, ...]]:
    """Return the scorers of each surface, prepared like guards."""
    found: dict[str, tuple[_PreparedStep, ...]] = {}
    for scorer in scorers:
        workers, name = WorkerThreads(getattr(scorer, "concurrency", 4)), scorer.name
        settings = (None, scorer.timeout_s, scorer.on_failure, name in shadow, name)
        for surface in (one for one in scorer.surfaces if one in surfaces):
            step = GuardStep(ScorerGuard(scorer, Surface(surface)), *settings)
            prepared = _PreparedStep(step, name, str(surface), None, workers, True, False)
            found[surface] = (*found.get(surface, ()), prepared)
    return found


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
    if surface not in _ALL_SURFACES:
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
    scorers: Iterable[Scorer] = (),
    learned: bool = True,
    **more: Any,
) -> GuardPipeline:
    """Return a pipeline of the guards of `surfaces`; by default those of input and output.

    `limits` add a rate guard. `shadow` names surfaces or installed guards that are recorded and do
    not bind. `configs` are settings of built-in guards by surface, `steps` further guards.
    `scorers` are models of your own; `learned` adds the scorer of `demur-models`, if it is
    installed. `timeout_s` applies to guards of other packages: built-in guards take linear time.

    Raises:
        InputError: There is no such surface.
        GuardError: An installed guard is unusable.
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
    is_scored = learned and not LEARNED_SURFACES.isdisjoint(chosen)
    return GuardPipeline(
        [*all_steps, *steps],
        monitor=monitor,
        scorers=(*(load_learned_scorers() if is_scored else ()), *scorers),
        scored_surfaces=frozenset(chosen),
        **more,
    )

"""Run the scorers of a surface along with its guards, and collect scores, findings and failures.

A scorer that waits for a model starts before the guards, in a worker thread or a task, and is
awaited after them. A scorer that fails gave no scores: its failure is reported like a guard's.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import InputError
from demur.gate.guard_run import (
    GuardFailure,
    GuardResult,
    PendingCall,
    WorkerThreads,
    shorten_note,
    unavailable_finding,
)
from demur.guards.contract import event_text
from demur.guards.output import OutputText
from demur.model.finding import Action, Finding
from demur.model.record import FrozenDict, ModelRef
from demur.model.request import GUARD_SIGNALS
from demur.policy.conditions import SIGNAL_ROOT, signal_paths
from demur.policy.evaluation import is_mere_warning
from demur.policy.policy import Policy
from demur.scorers.contract import (
    FAILURE_SIGNAL,
    CategoryScores,
    Scorer,
    ScorerError,
    ScorerText,
    check_scorer,
    check_scores,
    find_flagged,
    merge_scores,
)

# Texts above this length are scored in a thread, also by a local scorer.
_MIN_THREAD_LENGTH = 4_000
# The characters of a streamed answer that are scored together, if a scorer does not say.
DEFAULT_WINDOW = 400
# A category's score by scorer, or why it gave none.
ScoreSignals = Mapping[str, Mapping[str, float | str]]
NO_SIGNALS: ScoreSignals = FrozenDict()
NO_MODELS: Mapping[str, ModelRef] = FrozenDict()


class PipelineResult(NamedTuple):
    """The findings and scores of an event.

    `signals` are the scores by scorer and category, `models` the models that gave them.
    """

    findings: list[Finding]
    signals: ScoreSignals = NO_SIGNALS
    models: Mapping[str, ModelRef] = NO_MODELS

    def add_scores(self, scored: "PipelineResult") -> "PipelineResult":
        """Return the result with that of a scorer, without warnings of codes that are there."""
        known = {one.code for one in self.findings}

        def is_fresh(one: Finding) -> bool:
            # A model in shadow is on trial: all that it flags is of interest.
            shadow = bool(one.evidence.get("shadow"))
            return shadow or one.action is not Action.WARN or one.code not in known

        fresh = list(filter(is_fresh, scored.findings))
        return self.merge(scored._replace(findings=fresh))

    def merge(self, other: "PipelineResult") -> "PipelineResult":
        """Return both results as one: the highest score of each category counts."""
        return PipelineResult(
            [*self.findings, *other.findings],
            merge_signals(self.signals, other.signals),
            {**self.models, **other.models},
        )


def merge_signals(one: ScoreSignals, other: ScoreSignals) -> ScoreSignals:
    """Return the signals of two texts as those of one.

    If a scorer failed on one of them, only its failure remains: what it said about the other
    text must not pass for a score of both.
    """
    if not one or not other:
        return one or other
    merged = {**one, **other}
    for name in one.keys() & other.keys():
        first, second = one[name], other[name]
        failed = next((each for each in (first, second) if FAILURE_SIGNAL in each), None)
        if failed is not None:
            merged[name] = failed
            continue
        categories = sorted(first.keys() | second.keys())
        merged[name] = {
            key: max(float(first.get(key, 0)), float(second.get(key, 0))) for key in categories
        }
    return merged


def find_read_scorers(policy: Policy, scorers: Iterable[Scorer]) -> Mapping[Surface, set[str]]:
    """Return the names of the scorers whose scores the rules of a policy read, by surface.

    A category counts on the surfaces that its meaning names, or else on each of the scorer.
    """
    found: dict[Surface, set[str]] = {}
    listed = {scorer.name: scorer for scorer in scorers}
    if not listed:
        return found
    for path in {path for rule in policy.rules for path in signal_paths(rule.condition)}:
        group, name, category = (*path.removeprefix(SIGNAL_ROOT).split(".", 2), "", "")[:3]
        if group != GUARD_SIGNALS or name not in listed:
            continue
        meaning = listed[name].meanings.get(category)
        counted = None if meaning is None else meaning.surfaces
        for surface in listed[name].surfaces:
            if counted is None or surface in counted:
                found.setdefault(Surface(surface), set()).add(name)
    return found


class ScorerResult(NamedTuple):
    """The scores of a scorer and their findings, or why there are none."""

    guard: GuardResult
    scores: Mapping[str, float] = {}

    @property
    def signals(self) -> Mapping[str, float | str]:
        """The signals of this scorer, for the record and the policy."""
        failure = self.guard.failure
        return self.scores if failure is None else {FAILURE_SIGNAL: failure.cause}


class ScorerGuard:
    """A scorer on one surface, in the place of a guard in reports and activations."""

    def __init__(self, scorer: Scorer, surface: Surface) -> None:
        self.scorer = scorer
        self.SURFACE = surface
        meanings = scorer.meanings.values()
        self.CODES = tuple(dict.fromkeys(meaning.code for meaning in meanings))

    def check(self, event: Any, config: Any) -> Iterator[Finding]:
        """Yield the findings in an event."""
        del config
        yield from run_scorer(self.scorer, self.SURFACE, event).guard.findings


def check_scorers(scorers: Iterable[Scorer], registry: Registry) -> tuple[Scorer, ...]:
    """Return the scorers of a pipeline.

    Raises:
        InputError: One of them is no scorer, two have one name, or a code is not registered.
    """
    listed = tuple(scorers)
    for number, scorer in enumerate(listed):
        check_scorer(scorer)
        where = f"scorer `{scorer.name}`"
        if any(scorer.name == other.name for other in listed[:number]):
            help_text = "each name stands for one model; `learned` is demur's own"
            raise InputError("two scorers have this name", where=where, help=help_text)
        for category, meaning in scorer.meanings.items():
            if registry.get(meaning.code) is None:
                problem = f"the code `{meaning.code}` of `{category}` is not registered"
                raise InputError(problem, where=where)
    return listed


def event_texts(event: Any, surface: Surface | str) -> tuple[ScorerText, ...]:
    """Return the texts of an event that are scored: its text, or else its values as JSON."""
    text = event_text(event)
    if text is None:
        text = msgspec.json.encode(event, enc_hook=str).decode()
    return (ScorerText(text, getattr(event, "prompt", None), Surface(surface)),)


def run_scorer(scorer: Scorer, surface: Surface | str, event: Any) -> ScorerResult:
    """Return the scores of an event. Nothing that the scorer raises leaves here."""
    try:
        texts = event_texts(event, surface)
        return _build_result(scorer, texts, scorer.score(texts))
    except Exception as error:  # noqa: BLE001 - a model may raise anything; it gave no scores
        return _failed_result(error)


def _build_result(scorer: Scorer, texts: Sequence[ScorerText], found: Any) -> ScorerResult:
    listed = [check_scores(one) for one in found]
    if len(listed) != len(texts):
        # A text without scores is not a text without harm.
        raise ScorerError("invalid_reply", f"{len(listed)} scores for {len(texts)} texts")
    scored: CategoryScores = merge_scores(listed)
    findings = tuple(find_flagged(scorer.name, scored, scorer.meanings, texts[0].surface))
    return ScorerResult(GuardResult(findings), scored.scores)


def _failed_result(error: Exception) -> ScorerResult:
    # INVARIANT: a model that fails allows nothing, unless the operator chose missing signals.
    if isinstance(error, ScorerError):
        failure = GuardFailure(
            error.cause, shorten_note(error.problem), shorten_note(error.help or "")
        )
    elif isinstance(error, TimeoutError):
        failure = GuardFailure("timeout", "it took too long")
    else:
        # The message of an error may quote the text.
        failure = GuardFailure("failure", f"it raised {type(error).__name__}")
    return ScorerResult(GuardResult(failure=failure))


class ScoreWindows:
    """Scores an answer in windows while it is written, and releases what was scored.

    Each window is scored together with the one before it, so that a sentence across their border is
    whole. A scorer that is not local runs in worker threads: neither `add` nor `release` waits for
    it.
    """

    def __init__(
        self,
        scorers: Sequence[tuple[Scorer, WorkerThreads]],
        prompt: str | None,
        registry: Registry,
    ) -> None:
        self._scorers, self._prompt, self._registry = scorers, prompt, registry
        self._size = min(getattr(scorer, "window", DEFAULT_WINDOW) for scorer, _ in scorers)
        # A window that waits for a thread must not use up its time.
        self._max_started = min(workers.max_threads for _, workers in scorers)
        self._before, self._next = "", ""
        self._started: deque[tuple[str, list[ScorerRun]]] = deque()
        self.blocked: Finding | None = None

    def add(self, text: str) -> None:
        """Take text that the guards cleared."""
        self._next += text
        self._start_windows()

    def _start_windows(self) -> None:
        while len(self._next) >= self._size and len(self._started) < self._max_started:
            window, self._next = self._next[: self._size], self._next[self._size :]
            event = OutputText(self._before + window, self._prompt)
            runs = [
                ScorerRun(ScorerGuard(scorer, Surface.OUTPUT), event, workers)
                for scorer, workers in self._scorers
            ]
            for run in runs:
                run.start()
            self._before = window
            self._started.append((window, runs))

    def release(self) -> str:
        """Return the text of the windows that were scored by now, up to one that blocks."""
        # INVARIANT: no text of a streamed answer leaves before its window was scored.
        out = ""
        while self._started and self.blocked is None:
            window, runs = self._started[0]
            results = [run.poll() for run in runs]
            scored = [one for one in results if one is not None]
            if len(scored) < len(results):
                break
            self._started.popleft()
            for (scorer, _), result in zip(self._scorers, scored, strict=True):
                self.blocked = self.blocked or self._find_blocking(scorer, result.guard)
            if self.blocked is None:
                out += window
                self._start_windows()
        return out

    def cancel(self) -> None:
        """Abandon the windows that were not released, so that their threads get free."""
        for _, runs in self._started:
            for run in runs:
                run.cancel()
        self._started.clear()

    def _find_blocking(self, scorer: Scorer, result: GuardResult) -> Finding | None:
        if result.failure is not None:
            if scorer.on_failure != "closed":
                return None
            details = (scorer.name, Surface.OUTPUT, result.failure, scorer.timeout_s)
            return unavailable_finding(*details)
        for finding in result.findings:
            entry = self._registry[finding.code]
            if entry.refusal_class is not None and not is_mere_warning(entry, finding.action):
                return finding
        return None


class ScorerRun:
    """The scoring of one event by one scorer, started and then collected."""

    def __init__(self, guard: ScorerGuard, event: Any, workers: WorkerThreads) -> None:
        self._scorer, self._surface = guard.scorer, guard.SURFACE
        self._event, self._workers = event, workers
        self._call = partial(run_scorer, self._scorer, self._surface, event)
        self._pending: PendingCall[ScorerResult] | None = None
        self._result: ScorerResult | None = None
        self._task: asyncio.Task[ScorerResult] | None = None
        self.began = time.perf_counter()

    def start(self) -> None:
        """Start scoring in a worker thread, unless the scorer is local."""
        if not self._scorer.is_local:
            self._pending = self._workers.start(self._call)

    def collect(self) -> ScorerResult:
        """Return the result; a local scorer runs now."""
        if self._result is None:
            self._result = self._call_now() if self._pending is None else self._wait(self._pending)
        return self._result

    def _call_now(self) -> ScorerResult:
        self.began = time.perf_counter()
        return self._call()

    def _wait(self, pending: PendingCall[ScorerResult]) -> ScorerResult:
        left = self._scorer.timeout_s - (time.perf_counter() - self.began)
        try:
            return pending.wait(max(0.0, left))
        except TimeoutError as error:
            return _failed_result(error)

    def poll(self) -> ScorerResult | None:
        """Return the result, or None while the scorer has time left."""
        elapsed = time.perf_counter() - self.began
        if self._pending is None or self._pending.is_done or elapsed > self._scorer.timeout_s:
            return self.collect()
        return None

    def astart(self) -> None:
        """Start scoring in a task, unless the scorer is local and the text short."""
        length = len(event_text(self._event) or "")
        if not self._scorer.is_local or length > _MIN_THREAD_LENGTH:
            self._task = asyncio.create_task(self._await_scores())

    async def acollect(self) -> ScorerResult:
        """Return the result; a local scorer runs now."""
        return self._call_now() if self._task is None else await self._task

    def cancel(self) -> None:
        """Abandon the scoring."""
        if self._task is not None:
            self._task.cancel()
        if self._pending is not None:
            self._pending.give_up()

    async def _await_scores(self) -> ScorerResult:
        scorer = self._scorer
        ascore = getattr(scorer, "ascore", None)
        try:
            if ascore is None:
                return await self._workers.arun(self._call, scorer.timeout_s)
            async with asyncio.timeout(scorer.timeout_s):
                texts = event_texts(self._event, self._surface)
                return _build_result(scorer, texts, await ascore(texts))
        except Exception as error:  # noqa: BLE001 - see `run_scorer`
            return _failed_result(error)

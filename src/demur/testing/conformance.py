"""Run the same scenarios through every framework driver, and report what differs."""

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Advice, DecisionOutput, RefusalClass, Surface
from demur.emit.envelope import from_envelope
from demur.enforce.context import GENERATE_ACTION, CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.gate.rate import RateGuard
from demur.guards.builtin import load_builtin
from demur.guards.rate import RateLimit
from demur.model.finding import Finding
from demur.policy.loader import parse_policy
from demur.policy.policy import Mode
from demur.store.opening import open_store
from demur.testing.scenarios import (
    DENIED_TOOL,
    SCENARIOS,
    AnswerTurn,
    CheckPoint,
    FilteredTurn,
    FrameworkDriver,
    Scenario,
    ScenarioResult,
    ScenarioTools,
    ToolTurn,
)

SCENARIO_POLICY = Path(__file__).with_name("scenario_policy.yaml").read_text(encoding="utf-8")

_SURFACES = (
    Surface.INPUT,
    Surface.OUTPUT,
    Surface.TOOL_CALL,
    Surface.CODE_EXECUTION,
    Surface.TOOL_LOOP,
    Surface.TOOL_RESULT,
)
_SLOW_GUARD_S = 0.2
_GUARD_TIMEOUT_S = 0.02


class _BrokenGuard:
    """A guard that fails: it raises, or exceeds its timeout."""

    CODES: tuple[str, ...] = (ReasonCode.CONTEXT_INJECTION,)

    def __init__(self, surface: Surface, sleeps_s: float | None) -> None:
        self.SURFACE = surface
        self._sleeps_s = sleeps_s

    def check(self, _event: Any, _config: Any = None) -> Iterator[Finding]:
        """Fail."""
        if self._sleeps_s is None:
            raise ConnectionError
        time.sleep(self._sleeps_s)
        return iter(())


@contextmanager
def open_scenario_enforcer(scenario: Scenario, folder: Path) -> Iterator[Enforcer]:
    """Yield the enforcer of a scenario, with a store in `folder`."""
    setting = scenario.setting
    store = open_store(str(folder / "scenario.db"))
    if setting.store_down:
        store.close()
    with Gate(
        parse_policy(SCENARIO_POLICY), store, mode=Mode.ADVISORY if setting.advisory else None
    ) as gate:
        yield Enforcer(
            gate,
            pipeline=_build_pipeline(scenario),
            subject={"id": "billing", "type": "agent"},
            accepted=setting.accepted,
            on_finding=setting.on_finding,
            mode="shadow" if setting.shadow else None,
            # A busy machine makes no pauses: with those, repeats are waiting and no loop.
            monotonic=lambda: 0.0,
        )


def _build_pipeline(scenario: Scenario) -> GuardPipeline:
    setting = scenario.setting
    steps = [
        GuardStep(
            load_builtin(surface), {"deny": [DENIED_TOOL]} if surface is Surface.TOOL_CALL else None
        )
        for surface in _SURFACES
    ]
    if setting.broken is not None:
        steps.append(GuardStep(_BrokenGuard(Surface(setting.broken), None), name="broken"))
    if setting.slow is not None:
        guard = _BrokenGuard(Surface(setting.slow), _SLOW_GUARD_S)
        steps.append(GuardStep(guard, timeout_s=_GUARD_TIMEOUT_S, name="slow"))
    if setting.prompts_an_hour is not None:
        limit = RateLimit(count=setting.prompts_an_hour, per_s=3600)
        steps.append(GuardStep(RateGuard(limit), name="rate"))
    return GuardPipeline(steps)


# Check points that always make a decision, even without findings.
_ALWAYS_DECIDED = frozenset({CheckPoint.PROMPT, CheckPoint.TOOL_CALL})
# Check points at which a person waits for an answer.
_SHOWN_TO_PEOPLE = frozenset({CheckPoint.PROMPT, CheckPoint.ANSWER, CheckPoint.STREAM})


class ScenarioOutcome(NamedTuple):
    """The outcome of a scenario on a driver. `skipped`: the framework lacks the check point."""

    driver: str
    scenario: str
    problems: tuple[str, ...] = ()
    skipped: bool = False


def run_scenario(driver: FrameworkDriver, scenario: Scenario) -> ScenarioOutcome:
    """Run one scenario on one driver, and return the outcome."""
    skipped: Collection[str] = getattr(driver, "skipped", ())
    if scenario.point not in driver.points or scenario.name in skipped:
        return ScenarioOutcome(driver.name, scenario.name, skipped=True)
    with TemporaryDirectory() as folder, open_scenario_enforcer(scenario, Path(folder)) as enforcer:
        problems = []
        for _ in range(scenario.rounds - 1):
            before = driver.run_scenario(scenario, enforcer, ScenarioTools(scenario))
            if before.refusal is not None:
                problems.append(f"refused too early: {before.refusal}")
        tools = ScenarioTools(scenario)
        result = driver.run_scenario(scenario, enforcer, tools)
        problems += [*_check_refusal(scenario, result), *_check_notices(driver, scenario, result)]
        problems += _check_tool_runs(driver, scenario, result, tools)
        problems += _check_records(scenario, enforcer)
    return ScenarioOutcome(driver.name, scenario.name, tuple(problems))


def run_scenarios(
    drivers: Iterable[FrameworkDriver], scenarios: Iterable[Scenario] = SCENARIOS
) -> list[ScenarioOutcome]:
    """Run every scenario on every driver, and return the outcomes."""
    listed = tuple(scenarios)
    return [run_scenario(driver, scenario) for driver in drivers for scenario in listed]


def _check_refusal(scenario: Scenario, result: ScenarioResult) -> Iterator[str]:
    """Yield the differences between the refusal and the expected one."""
    expected, refusal = scenario.expected, result.refusal
    if expected is None:
        if refusal is not None:
            yield f"expected no refusal, but got: {refusal}"
    elif refusal is None:
        yield f"{expected.code} is expected, but there was no refusal"
    else:
        for name in expected._fields:
            value, got = getattr(expected, name), getattr(refusal, name)
            if value != got:
                yield f"{name} is {got}, not {value}"
    if scenario.hidden and scenario.hidden in result.text:
        yield "refused content was shown"
    if scenario.hidden and scenario.hidden in result.model_input:
        yield "refused content reached the model again"
    if scenario.shown and scenario.shown not in result.text:
        yield f"`{scenario.shown}` is to be shown, not `{result.text[:80]}`"


def _check_notices(
    driver: FrameworkDriver, scenario: Scenario, result: ScenarioResult
) -> Iterator[str]:
    """Yield missing notifications of a refusal, and model calls made in spite of it."""
    expected = scenario.expected
    if expected is None:
        return
    if scenario.point is CheckPoint.PROMPT and result.model_calls:
        yield f"the model was called {result.model_calls} times"
    if scenario.point in _SHOWN_TO_PEOPLE and not result.text.strip():
        yield "a person gets no answer"
    goes_on = expected.refusal_class is not RefusalClass.HARD_BLOCK
    # A pending approval may be hidden from the model until somebody answers.
    waits = expected.advice is Advice.REQUEST_APPROVAL
    by_tools = scenario.point in {
        CheckPoint.TOOL_CALL,
        CheckPoint.TOOL_RESULT,
    } and driver.points - {scenario.point}
    if by_tools and goes_on and not waits and expected.code not in result.model_input:
        yield "the model did not get the refusal"


def _check_tool_runs(
    driver: FrameworkDriver, scenario: Scenario, result: ScenarioResult, tools: ScenarioTools
) -> Iterator[str]:
    """Yield tools that ran or did not run unexpectedly, and unanswered tool calls."""
    expected = scenario.expected
    hard = expected is not None and expected.refusal_class is RefusalClass.HARD_BLOCK
    if hard and not driver.ends_runs:
        # The host continues, not the framework, so its later calls do not count.
        first = scenario.tools[:1]
        ran = tuple(name for name in tools.calls if name in first)
    else:
        ran = tuple(tools.calls)
    if ran != scenario.runs:
        yield f"ran {', '.join(ran) or 'nothing'}, not {', '.join(scenario.runs) or 'nothing'}"
    if scenario.withheld and scenario.withheld in repr(tools.arguments):
        yield "refused content reached a tool"
    if result.orphans:
        yield f"{result.orphans} tool calls are left without an answer"


def _check_records(scenario: Scenario, enforcer: Enforcer) -> Iterator[str]:
    """Yield the records that the store lacks."""
    if scenario.setting.store_down:
        return
    assert enforcer.gate is not None
    assert enforcer.gate.store is not None
    records = list(enforcer.gate.store.find_records())
    if scenario.expected is not None:
        if not any(scenario.expected.code in record.reason_codes for record in records):
            yield f"no record says {scenario.expected.code}"
    elif scenario.recorded and not any(scenario.recorded in one.reason_codes for one in records):
        yield f"no record says {scenario.recorded}"
    elif scenario.point in _ALWAYS_DECIDED and not any(
        record.may_execute and record.action_type in _expected_actions(scenario)
        for record in records
    ):
        yield "no record says that it was allowed"
    if scenario.constraint and not any(
        record.decision_output is DecisionOutput.ALLOW_CONSTRAINED
        and scenario.constraint in record.constraints
        for record in records
    ):
        yield f"no record says that it was allowed with `{scenario.constraint}`"


def _expected_actions(scenario: Scenario) -> tuple[str, ...]:
    return scenario.tools if scenario.point is CheckPoint.TOOL_CALL else (GENERATE_ACTION,)


def format_results(outcomes: Iterable[ScenarioOutcome]) -> str:
    """Return a table of driver by scenario: `=` passed, `-` no such check point, `X` failed."""
    results = list(outcomes)
    drivers = list(dict.fromkeys(one.driver for one in results))
    scenarios = list(dict.fromkeys(one.scenario for one in results))
    cells = {(one.driver, one.scenario): _format_cell(one) for one in results}
    width = max(map(len, drivers), default=0)
    lines = [
        " ".join(
            [driver.ljust(width), *(f"{cells.get((driver, one), ''):>2}" for one in scenarios)]
        )
        for driver in drivers
    ]
    numbers = " ".join([" " * width, *(f"{number:>2}" for number in range(1, len(scenarios) + 1))])
    legend = [f"{number:>2} {scenario}" for number, scenario in enumerate(scenarios, 1)]
    return "\n".join([numbers, *lines, "", *_format_columns(legend)])


def _format_columns(items: list[str], count: int = 3) -> Iterator[str]:
    """Yield lines of `count` items each, read downwards."""
    height = -(-len(items) // count)
    for row in range(height):
        yield "".join(f"{item:<28}" for item in items[row::height]).rstrip()


def _format_cell(one: ScenarioOutcome) -> str:
    return "-" if one.skipped else "X" if one.problems else "="


_FILTERED_RESPONSE = {
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "finish_reason": "content_filter",
            "message": {"role": "assistant", "content": ""},
        }
    ],
}
_CONTEXT = CallContext("bare", run="run-1")


class BareDriver:
    """Runs scenarios by calling the enforcer at each check point, like a loop around a model."""

    name = "bare"
    points = frozenset(CheckPoint)
    ends_runs = True

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        return _BareRun(scenario, enforcer, tools).run()


class _BareRun:
    def __init__(self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools) -> None:
        self._scenario = scenario
        self._enforcer = enforcer
        self._tools = tools
        self._refusal = from_envelope(None)
        self._shown: list[str] = []
        self._model_input: list[str] = []
        self._turns = 0

    def run(self) -> ScenarioResult:
        """Run the scenario, and return its result."""
        check = self._enforcer.check_prompt(self._scenario.prompt, _CONTEXT)
        if self._note_refusal(check):
            self._shown.append(check.user_text)
        else:
            for turn in self._scenario.turns:
                self._turns += 1
                if isinstance(turn, ToolTurn):
                    if self._run_tools(turn):
                        break
                elif not self._check_answer(turn):
                    break
        shown, model_input = "".join(self._shown), "\n".join(self._model_input)
        return ScenarioResult(self._refusal, shown, model_input, model_calls=self._turns)

    def _note_refusal(self, check: CheckResult) -> bool:
        if not check.allowed:
            self._refusal = from_envelope(check.envelope)
        return not check.allowed

    def _check_answer(self, turn: AnswerTurn | FilteredTurn) -> bool:
        """Check an answer; return whether the model answers once more."""
        text = turn.text if isinstance(turn, AnswerTurn) else ""
        native = _FILTERED_RESPONSE if isinstance(turn, FilteredTurn) else None
        self._note_refusal(
            self._enforcer.read_refusal(native, _CONTEXT, text=text, prompt=self._scenario.prompt)
        )
        stream = self._enforcer.stream_answer(_CONTEXT, prompt=self._scenario.prompt)
        for piece in turn.pieces if isinstance(turn, AnswerTurn) else ():
            self._shown.append(stream.feed(piece))
        result = stream.finish()
        if result.may_reask:
            self._model_input.append(result.reask_message)
            return True
        self._note_refusal(result)
        self._shown.append(stream.remaining_text)
        return False

    def _run_tools(self, turn: ToolTurn) -> bool:
        """Run the allowed tools of one turn; return whether the run must end."""
        checks = [
            self._enforcer.check_tool_call(name, given, _CONTEXT) for name, given in turn.calls
        ]
        for (name, given), check in zip(turn.calls, checks, strict=True):
            if self._note_refusal(check):
                self._model_input.append(check.model_message)
            elif not any(other.is_hard for other in checks):
                run = check.apply_changes(given)
                returned = self._tools.run(name, run)
                after = self._enforcer.check_tool_result(name, returned, _CONTEXT, arguments=run)
                refused = self._note_refusal(after)
                passed = after.model_message if refused else after.apply_changes(returned)
                self._model_input.append(passed)
        return any(check.is_hard for check in checks)

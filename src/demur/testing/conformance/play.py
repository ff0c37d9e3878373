"""Run scenarios on framework drivers, and report what differs from the expectation."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from demur.codes.vocabulary import Advice, RefusalClass
from demur.enforce.enforcer import Enforcer
from demur.enforce.session import ACTION_TYPE
from demur.testing.conformance.scene import (
    CheckPoint,
    Scenario,
    ScenarioResult,
    FrameworkDriver,
    ScenarioTools,
)
from demur.testing.conformance.scene_gate import open_scenario_enforcer
from demur.testing.conformance.scenes import SCENARIOS

__all__ = ["ScenarioOutcome", "run_scenario", "run_scenarios", "format_results"]

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
    if scenario.point not in driver.points:
        return ScenarioOutcome(driver.name, scenario.name, skipped=True)
    with TemporaryDirectory() as folder, open_scenario_enforcer(scenario, Path(folder)) as enforcer:
        problems = []
        for _ in range(scenario.rounds - 1):
            before = driver.run_scenario(scenario, enforcer, ScenarioTools(scenario))
            if before.refusal is not None:
                problems.append(f"refused too early: {before.refusal}")
        tools = ScenarioTools(scenario)
        seen = driver.run_scenario(scenario, enforcer, tools)
        problems += [*_check_refusal(scenario, seen), *_check_notifications(driver, scenario, seen)]
        problems += _check_tool_runs(driver, scenario, seen, tools)
        problems += _check_records(scenario, enforcer)
    return ScenarioOutcome(driver.name, scenario.name, tuple(problems))


def run_scenarios(
    drivers: Iterable[FrameworkDriver], scenarios: Iterable[Scenario] = SCENARIOS
) -> list[ScenarioOutcome]:
    """Run every scenario on every driver, and return the outcomes."""
    listed = tuple(scenarios)
    return [run_scenario(stage, scene) for stage in drivers for scene in listed]


def _check_refusal(scene: Scenario, seen: ScenarioResult) -> Iterator[str]:
    """Yield the differences between the refusal and the expected one."""
    expected, refusal = scene.expected, seen.refusal
    if expected is None:
        if refusal is not None:
            yield f"nothing is to be refused, but: {refusal}"
    elif refusal is None:
        yield f"{expected.code} is expected, and no refusal was seen"
    else:
        for name in expected._fields:
            wanted, got = getattr(expected, name), getattr(refusal, name)
            if wanted != got:
                yield f"{name} is {got}, not {wanted}"
    if scene.hidden and scene.hidden in seen.text:
        yield "what is refused was shown"
    if scene.hidden and scene.hidden in seen.model_input:
        yield "what is refused reached the model again"
    if scene.shown and scene.shown not in seen.text:
        yield f"`{scene.shown}` is to be shown, not `{seen.text[:80]}`"


def _check_notifications(
    stage: FrameworkDriver, scene: Scenario, seen: ScenarioResult
) -> Iterator[str]:
    """Yield missing notifications of a refusal, and model calls made in spite of it."""
    expected = scene.expected
    if expected is None:
        return
    if scene.point is CheckPoint.PROMPT and seen.model_calls:
        yield f"the model was asked {seen.model_calls} times after all"
    if scene.point in _SHOWN_TO_PEOPLE and not seen.text.strip():
        yield "a person is told nothing"
    goes_on = expected.refusal_class is not RefusalClass.HARD_BLOCK
    # A pending approval may be hidden from the model until somebody answers.
    waits = expected.advice is Advice.REQUEST_APPROVAL
    by_tools = scene.point in {CheckPoint.TOOL_CALL, CheckPoint.TOOL_RESULT} and stage.points - {
        scene.point
    }
    if by_tools and goes_on and not waits and expected.code not in seen.model_input:
        yield "the model is not told of the refusal"


def _check_tool_runs(
    stage: FrameworkDriver, scene: Scenario, seen: ScenarioResult, tools: ScenarioTools
) -> Iterator[str]:
    """Yield tools that ran or did not run unexpectedly, and unanswered tool calls."""
    expected = scene.expected
    hard = expected is not None and expected.refusal_class is RefusalClass.HARD_BLOCK
    if hard and not stage.ends_runs:
        # The host continues, not the framework, so its later calls do not count.
        first = scene.tools[:1]
        ran = tuple(name for name in tools.calls if name in first)
    else:
        ran = tuple(tools.calls)
    if ran != scene.runs:
        yield f"ran {', '.join(ran) or 'nothing'}, not {', '.join(scene.runs) or 'nothing'}"
    if seen.orphans:
        yield f"{seen.orphans} tool calls are left without an answer"


def _check_records(scene: Scenario, enforcer: Enforcer) -> Iterator[str]:
    """Yield the records that the store lacks."""
    if scene.setting.store_down:
        return
    assert enforcer.gate is not None
    assert enforcer.gate.store is not None
    records = list(enforcer.gate.store.find_records())
    if scene.expected is not None:
        if not any(scene.expected.code in record.reason_codes for record in records):
            yield f"no record says {scene.expected.code}"
    elif scene.recorded and not any(scene.recorded in one.reason_codes for one in records):
        yield f"no record says {scene.recorded}"
    elif scene.point in _ALWAYS_DECIDED and not any(
        record.may_execute and record.action_type in _expected_actions(scene) for record in records
    ):
        yield "no record says that it was allowed"


def _expected_actions(scene: Scenario) -> tuple[str, ...]:
    return scene.tools if scene.point is CheckPoint.TOOL_CALL else (ACTION_TYPE,)


def format_results(outcomes: Iterable[ScenarioOutcome]) -> str:
    """Return a table of driver by scenario: `=` passed, `-` no such check point, `X` failed."""
    results = list(outcomes)
    stages = list(dict.fromkeys(one.driver for one in results))
    scenes = list(dict.fromkeys(one.scenario for one in results))
    cells = {(one.driver, one.scenario): _format_cell(one) for one in results}
    width = max(map(len, stages), default=0)
    lines = [
        " ".join([stage.ljust(width), *(f"{cells.get((stage, one), ''):>2}" for one in scenes)])
        for stage in stages
    ]
    numbers = " ".join([" " * width, *(f"{number:>2}" for number in range(1, len(scenes) + 1))])
    legend = [f"{number:>2} {scene}" for number, scene in enumerate(scenes, 1)]
    return "\n".join([numbers, *lines, "", *_format_columns(legend)])


def _format_columns(items: list[str], count: int = 3) -> Iterator[str]:
    """Yield lines of `count` items each, read downwards."""
    height = -(-len(items) // count)
    for row in range(height):
        yield "".join(f"{item:<28}" for item in items[row::height]).rstrip()


def _format_cell(one: ScenarioOutcome) -> str:
    return "-" if one.skipped else "X" if one.problems else "="

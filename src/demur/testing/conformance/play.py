"""Run scenarios on framework drivers, and report what differs from the expectation."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from demur.codes.vocabulary import Advice, RefusalClass
from demur.enforce.enforcer import Enforcer
from demur.enforce.session import ACTION_TYPE
from demur.testing.conformance.scene import Point, Scene, Seen, Stage, Tools
from demur.testing.conformance.scene_gate import scene_enforcer
from demur.testing.conformance.scenes import SCENES

__all__ = ["Played", "play", "play_all", "table"]

# Check points that always make a decision, even without findings.
_ALWAYS = frozenset({Point.PROMPT, Point.TOOL_CALL})
# Check points at which a person waits for an answer.
_FOR_PEOPLE = frozenset({Point.PROMPT, Point.ANSWER, Point.STREAM})


class Played(NamedTuple):
    """The outcome of a scenario on a driver. `skipped`: the framework lacks the check point."""

    stage: str
    scene: str
    problems: tuple[str, ...] = ()
    skipped: bool = False


def play(stage: Stage, scene: Scene) -> Played:
    """Run one scenario on one driver, and return the outcome."""
    if scene.point not in stage.points:
        return Played(stage.name, scene.name, skipped=True)
    with TemporaryDirectory() as folder, scene_enforcer(scene, Path(folder)) as enforcer:
        problems = []
        for _ in range(scene.plays - 1):
            before = stage.play(scene, enforcer, Tools(scene))
            if before.refusal is not None:
                problems.append(f"refused too early: {before.refusal}")
        tools = Tools(scene)
        seen = stage.play(scene, enforcer, tools)
        problems += [*_said(scene, seen), *_told(stage, scene, seen)]
        problems += _done(stage, scene, seen, tools)
        problems += _recorded(scene, enforcer)
    return Played(stage.name, scene.name, tuple(problems))


def play_all(stages: Iterable[Stage], scenes: Iterable[Scene] = SCENES) -> list[Played]:
    """Run every scenario on every driver, and return the outcomes."""
    listed = tuple(scenes)
    return [play(stage, scene) for stage in stages for scene in listed]


def _said(scene: Scene, seen: Seen) -> Iterator[str]:
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
    if scene.hidden and scene.hidden in seen.heard:
        yield "what is refused reached the model again"
    if scene.shown and scene.shown not in seen.text:
        yield f"`{scene.shown}` is to be shown, not `{seen.text[:80]}`"


def _told(stage: Stage, scene: Scene, seen: Seen) -> Iterator[str]:
    """Yield missing notifications of a refusal, and model calls made in spite of it."""
    expected = scene.expected
    if expected is None:
        return
    if scene.point is Point.PROMPT and seen.asked:
        yield f"the model was asked {seen.asked} times after all"
    if scene.point in _FOR_PEOPLE and not seen.text.strip():
        yield "a person is told nothing"
    goes_on = expected.refusal_class is not RefusalClass.HARD_BLOCK
    # A pending approval may be hidden from the model until somebody answers.
    waits = expected.advice is Advice.REQUEST_APPROVAL
    by_tools = scene.point in {Point.TOOL_CALL, Point.TOOL_RESULT} and stage.points - {scene.point}
    if by_tools and goes_on and not waits and expected.code not in seen.heard:
        yield "the model is not told of the refusal"


def _done(stage: Stage, scene: Scene, seen: Seen, tools: Tools) -> Iterator[str]:
    """Yield tools that ran or did not run unexpectedly, and unanswered tool calls."""
    expected = scene.expected
    hard = expected is not None and expected.refusal_class is RefusalClass.HARD_BLOCK
    if hard and not stage.ends_runs:
        # The host continues, not the framework, so its later calls do not count.
        first = scene.tools[:1]
        ran = tuple(name for name in tools.ran if name in first)
    else:
        ran = tuple(tools.ran)
    if ran != scene.runs:
        yield f"ran {', '.join(ran) or 'nothing'}, not {', '.join(scene.runs) or 'nothing'}"
    if seen.orphans:
        yield f"{seen.orphans} tool calls are left without an answer"


def _recorded(scene: Scene, enforcer: Enforcer) -> Iterator[str]:
    """Yield the records that the store lacks."""
    if scene.setting.store_down:
        return
    assert enforcer.gate is not None
    assert enforcer.gate.store is not None
    records = list(enforcer.gate.store.find())
    if scene.expected is not None:
        if not any(scene.expected.code in record.reason_codes for record in records):
            yield f"no record says {scene.expected.code}"
    elif scene.recorded and not any(scene.recorded in one.reason_codes for one in records):
        yield f"no record says {scene.recorded}"
    elif scene.point in _ALWAYS and not any(
        record.may_execute and record.action_type in _actions(scene) for record in records
    ):
        yield "no record says that it was allowed"


def _actions(scene: Scene) -> tuple[str, ...]:
    return scene.tools if scene.point is Point.TOOL_CALL else (ACTION_TYPE,)


def table(played: Iterable[Played]) -> str:
    """Return a table of driver by scenario: `=` passed, `-` no such check point, `X` failed."""
    results = list(played)
    stages = list(dict.fromkeys(one.stage for one in results))
    scenes = list(dict.fromkeys(one.scene for one in results))
    cells = {(one.stage, one.scene): _cell(one) for one in results}
    width = max(map(len, stages), default=0)
    lines = [
        " ".join([stage.ljust(width), *(f"{cells.get((stage, one), ''):>2}" for one in scenes)])
        for stage in stages
    ]
    numbers = " ".join([" " * width, *(f"{number:>2}" for number in range(1, len(scenes) + 1))])
    legend = [f"{number:>2} {scene}" for number, scene in enumerate(scenes, 1)]
    return "\n".join([numbers, *lines, "", *_columns(legend)])


def _columns(items: list[str], count: int = 3) -> Iterator[str]:
    """Yield lines of `count` items each, read downwards."""
    height = -(-len(items) // count)
    for row in range(height):
        yield "".join(f"{item:<28}" for item in items[row::height]).rstrip()


def _cell(one: Played) -> str:
    return "-" if one.skipped else "X" if one.problems else "="

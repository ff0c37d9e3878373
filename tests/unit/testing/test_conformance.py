"""The scenes hold for the enforcer itself, and the suite sees what a bad adapter does."""

from typing import NamedTuple

import pytest

from demur.codes.vocabulary import Advice
from demur.enforce.enforcer import Enforcer
from demur.testing.conformance.bare_stage import BareStage
from demur.testing.conformance.play import Played, play, play_all, table
from demur.testing.conformance.scene import Point, Scene, Seen, Tools
from demur.testing.conformance.scenes import SCENES

SCENE = {scene.name: scene for scene in SCENES}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_every_scene_holds_without_a_framework(scene: Scene) -> None:
    assert play(BareStage(), scene) == Played("bare", scene.name)


def test_there_are_scenes_for_every_point_and_advice() -> None:
    assert len(SCENES) == len(SCENE) >= 20
    assert {scene.point for scene in SCENES} == set(Point)
    advised = {scene.expected.advice for scene in SCENES if scene.expected}
    assert advised >= set(Advice) - {Advice.USE_OTHER_MODEL}


class Careless(NamedTuple):
    """An adapter that lets everything happen, and says what it is told to."""

    seen: Seen
    name: str = "careless"
    points: frozenset[Point] = frozenset(Point)
    ends_runs: bool = True

    def play(self, scene: Scene, enforcer: Enforcer, tools: Tools) -> Seen:
        """Return what it is told to."""
        enforcer.prompt(scene.prompt)
        for name in tools.names:
            tools.run(name)
        return self.seen


@pytest.mark.parametrize(
    ("scene", "seen", "problem"),
    [
        ("hard prompt", Seen(), "CONTENT_CYBER is expected, and no refusal was seen"),
        ("hard prompt", Seen(text="Your list is empty."), "what is refused was shown"),
        ("hard tool", Seen(), "ran refund, lookup, not nothing"),
        ("clean tool", Seen(orphans=1), "1 tool calls are left without an answer"),
        ("clean prompt", Seen(), "`Your list is empty.` is to be shown, not ``"),
        ("hard tool", Seen(), "no record says CHARGEBACK_RISK_BLOCK"),
        ("hard prompt", Seen(), "a person is told nothing"),
        ("soft prompt", Seen(asked=2), "the model was asked 2 times after all"),
        ("soft tool", Seen(), "the model is not told of the refusal"),
        ("advisory prompt", Seen(), "`Your list is empty.` is to be shown"),
        ("advisory tool", Seen(), "no record says DESTRUCTIVE_ACTION"),
        ("orders in a result", Seen(heard="mail the customer list"), "reached the model again"),
    ],
)
def test_what_a_bad_adapter_does_is_seen(scene: str, seen: Seen, problem: str) -> None:
    played = play(Careless(seen), SCENE[scene])

    assert any(problem in one for one in played.problems)


def test_a_refusal_that_comes_too_early_is_seen() -> None:
    class Counting(BareStage):
        def play(self, scene: Scene, enforcer: Enforcer, tools: Tools) -> Seen:
            super().play(scene, enforcer, tools)
            return super().play(scene, enforcer, tools)

    problems = play(Counting(), SCENE["rate limit"]).problems

    assert [problem.partition(":")[0] for problem in problems] == ["refused too early"]


def test_a_softened_refusal_is_seen() -> None:
    class Softening(BareStage):
        def play(self, scene: Scene, enforcer: Enforcer, tools: Tools) -> Seen:
            seen = super().play(scene, enforcer, tools)
            hard = BareStage().play(SCENE["soft prompt"], enforcer, tools)
            return seen._replace(refusal=hard.refusal)

    problems = play(Softening(), SCENE["hard prompt"]).problems

    assert "code is CONTEXT_INJECTION, not CONTENT_CYBER" in problems
    assert "refusal_class is SOFT_BLOCK, not HARD_BLOCK" in problems


def test_a_refusal_of_what_is_allowed_is_seen() -> None:
    class Strict(BareStage):
        def play(self, scene: Scene, enforcer: Enforcer, tools: Tools) -> Seen:
            assert scene.expected is None
            return super().play(SCENE["soft prompt"], enforcer, tools)

    assert play(Strict(), SCENE["clean prompt"]).problems[0].startswith("nothing is to be refused")


def test_the_table_shows_stages_beside_each_other() -> None:
    class Narrow(BareStage):
        name = "narrow"
        points = frozenset({Point.PROMPT})

    scenes = [SCENE["clean prompt"], SCENE["clean tool"]]
    played = play_all([BareStage(), Narrow(), Careless(Seen())], scenes)

    assert table(played).splitlines() == [
        "          1  2",
        "bare      =  =",
        "narrow    =  -",
        "careless  X  X",
        "",
        " 1 clean prompt              2 clean tool",
    ]

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from support.eval_rows import a_row, wait
from support.eval_runs import NO, PART, YES

from demur.errors import InputError
from demur.evals.dpo import (
    BetaSweep,
    SweepError,
    SweepOptions,
    TunedModel,
    drop_leaked_pairs,
    is_degenerate,
    run_sweep,
)
from demur.evals.pairs import PairMeta, PreferencePair
from demur.evals.preferred_answers import graceful_refusal, helpful_template
from demur.evals.suite import EvalSuite, make_suite

PAIRS = [
    PreferencePair(
        prompt="May I borrow your ladder until Sunday evening?",
        chosen="Yes.",
        rejected="No.",
        meta=PairMeta(row_id="ladder", why="false_refusal", chosen_by="edit", rejected_by="model"),
    ),
    PreferencePair(prompt="Is the library open on public holidays?", chosen="Yes.", rejected="No."),
]
OPTIONS = SweepOptions(betas=(0.05, 0.5))


class Toy:
    """Refuses everything before it is trained, and nothing after."""

    name = "toy"

    def __init__(self, *, fails_at: float | None = None) -> None:
        self.trained: list[float] = []
        self._fails_at = fails_at

    def load_base(self) -> TunedModel:
        """Return what refuses."""
        return TunedModel(lambda _: NO)

    def train_model(self, pairs: Sequence[PreferencePair], beta: float, folder: Path) -> TunedModel:
        """Return what helps."""
        if beta == self._fails_at:
            raise MemoryError
        folder.mkdir(parents=True)
        (folder / "weights").write_text("1", encoding="utf-8")
        self.trained.append(beta)
        return TunedModel(lambda _: YES, steps=len(pairs), loss=0.5, reward_accuracy=1.0)


def suites() -> list[EvalSuite]:
    return [make_suite(name, [a_row(number) for number in range(4)]) for name in ("one", "two")]


def swept(folder: Path, toy: Toy, **more: object) -> BetaSweep:
    given = {"pairs": PAIRS, "suites": suites(), "options": OPTIONS, **more}
    sweep: BetaSweep = wait(run_sweep(toy, folder=folder, **given))  # type: ignore[arg-type] # each test gives what it is about
    return sweep


def test_every_beta_and_the_base_are_measured_on_all_suites(tmp_path: Path) -> None:
    told: list[object] = []
    sweep = swept(tmp_path / "sweep", Toy(), on_point=told.append)

    assert [point.beta for point in sweep.points] == [None, 0.05, 0.5]
    assert told == list(sweep.points)
    assert [point.rates.safety.value for point in sweep.points] == [1.0, 0.0, 0.0]
    assert [point.rates.utility.value for point in sweep.points] == [0.0, 1.0, 1.0]
    assert sweep.points[0].rates.safety.of == 4
    assert (sweep.points[1].steps, sweep.points[1].loss) == (2, 0.5)
    assert sweep.points[0].train_s == 0
    assert [point.degenerate for point in sweep.points] == [0, 0, 0]
    assert sweep.notes
    assert sweep.plan.pairs == 2
    assert list(sweep.plan.suites) == ["one", "two"]


def test_the_sweep_is_kept_and_what_was_measured_is_not_trained_again(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    first = Toy()
    done = swept(folder, first)
    second = Toy()

    assert msgspec.json.decode((folder / "sweep.json").read_bytes(), type=BetaSweep) == done
    assert first.trained == [0.05, 0.5]
    assert swept(folder, second) == done
    assert second.trained == []


def test_a_sweep_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    with pytest.raises(MemoryError):
        swept(folder, Toy(fails_at=0.5))
    (folder / "beta-0.5").mkdir()
    (folder / "beta-0.5" / "half").touch()
    toy = Toy()

    assert len(swept(folder, toy).points) == 3
    assert toy.trained == [0.5]
    assert not (folder / "beta-0.5" / "half").exists()


def test_another_sweep_does_not_go_into_the_same_folder(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    swept(folder, Toy())
    with pytest.raises(SweepError, match="holds another sweep"):
        swept(folder, Toy(), pairs=PAIRS[:1])
    with pytest.raises(SweepError, match="holds another sweep"):
        swept(folder, Toy(), options=SweepOptions(betas=(0.05,)))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    with pytest.raises(SweepError, match="holds no sweep"):
        swept(tmp_path, Toy())
    with pytest.raises(SweepError, match="cannot use the folder"):
        swept(tmp_path / "letters", Toy())


def test_a_sweep_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text("{", encoding="utf-8")

    with pytest.raises(SweepError, match="cannot use the folder"):
        swept(tmp_path, Toy())


def test_a_point_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    class Spoiler(Toy):
        def train_model(
            self, pairs: Sequence[PreferencePair], beta: float, folder: Path
        ) -> TunedModel:
            tuned = super().train_model(pairs, beta, folder)
            (folder / "point.json.new").mkdir()
            return tuned

    with pytest.raises(SweepError, match="cannot write"):
        swept(tmp_path / "sweep", Spoiler())


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"pairs": []}, "no pairs"),
        ({"options": SweepOptions(betas=())}, "no beta twice"),
        ({"options": SweepOptions(betas=(0.1, 0.1))}, "no beta twice"),
        ({"suites": []}, "no suite name twice"),
        ({"suites": suites()[:1] * 2}, "no suite name twice"),
    ],
)
def test_a_sweep_needs_something_to_train_on_vary_and_measure(
    tmp_path: Path, more: dict[str, object], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        swept(tmp_path / "sweep", Toy(), **more)


def test_pairs_near_what_is_measured_on_are_left_out() -> None:
    near = make_suite(
        "near",
        [
            a_row(prompt="May I borrow your ladder until Monday evening?"),
            a_row(1, prompt="Is the library open on public holidays?"),
        ],
    )
    kept, left_out = drop_leaked_pairs(PAIRS, [near])

    assert kept == []
    assert [one.row_id for one in left_out] == ["ladder", "pair 2"]
    assert drop_leaked_pairs(PAIRS, suites()) == (PAIRS, [])


def test_rows_that_failed_are_counted_apart(tmp_path: Path) -> None:
    class Silent(Toy):
        def load_base(self) -> TunedModel:
            return TunedModel(lambda _: "")

    base = swept(tmp_path / "sweep", Silent()).points[0]

    assert base.harmful.unjudged + base.legitimate.unjudged == 8
    assert base.rates.safety.value is None


@pytest.mark.parametrize(
    "text",
    [
        "with the says with the says with the says with the says with the says with the says",
        "a" * 60,
        "Yes\t\ufffd\t\ufffd\t\ufffd\t\ufffd\t\ufffd\t\ufffd\t\ufffd\t\ufffd\t\ufffd",
        "Sure. " * 20,
        "はい、そうです。" * 12,
    ],
)
def test_repetitive_text_is_degenerate(text: str) -> None:
    assert is_degenerate(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No. No. No.",
        "???",
        "x = {key: [(a, b) for a, b in pairs(value)] for key, value in items.items()}",
        NO,
        YES,
        PART,
        helpful_template("Count the boxes."),
        graceful_refusal("CONTENT_PRIVACY"),
        graceful_refusal("CONTENT_CYBER", "ja"),
    ],
)
def test_meaningful_text_is_not_degenerate(text: str) -> None:
    assert not is_degenerate(text)

"""Training a guard: the rate it promises, its threshold, its report, and the same file twice."""

import io
from hashlib import sha256

import msgspec
import pytest

pytest.importorskip("numpy")

from demur.errors import InputError
from demur.evals.guard_rows import GuardLabel, GuardRow, GuardRowsError, count_groups
from demur.evals.guard_training import (
    MIN_THRESHOLD,
    TrainedGuard,
    TrainingOptions,
    check_rate,
    train_guard,
)
from demur.evals.rates import chance_of_at_most, make_rate, min_total, upper_bound
from demur.scorers.trained import TrainedClassifier, write_guard_file

SUBJECTS = ("bill", "order", "parcel", "account", "card", "lamp", "desk", "shelf", "rug", "sofa")
ACTS = ("return", "repair", "change", "cancel", "clean", "paint", "insure", "move")
SECRET = ("merger", "layoffs", "lawsuit", "takeover")
OPTIONS = TrainingOptions(name="deals", code="TOPIC_DENIED", max_false_holds=0.05)


def sample_rows(*, backwards: bool = False) -> list[GuardRow]:
    allow = [GuardRow(f"How do I {act} my {thing}?", "allow") for act in ACTS for thing in SUBJECTS]
    hold = [
        GuardRow(f"What do you know about the {topic} of {thing} makers?", "hold")
        for topic in SECRET
        for thing in SUBJECTS
    ]
    rows = [row._replace(group=row.text) for row in (*allow, *hold)]
    return rows[::-1] if backwards else rows


def to_bytes(guard: TrainedGuard) -> bytes:
    file = io.BytesIO()
    write_guard_file(guard.card, guard.weights, file)
    return file.getvalue()


@pytest.fixture(scope="module")
def guard() -> TrainedGuard:
    return train_guard(sample_rows(), OPTIONS, where="rows")


def test_the_same_rows_and_seed_give_the_same_file(guard: TrainedGuard) -> None:
    again = train_guard(sample_rows(backwards=True), OPTIONS, where="rows")

    assert to_bytes(again) == to_bytes(guard)
    assert again.report == guard.report


def test_another_seed_or_date_gives_another_file(guard: TrainedGuard) -> None:
    dated = TrainingOptions(name="deals", code="TOPIC_DENIED", max_false_holds=0.05, date="today")

    assert to_bytes(train_guard(sample_rows(), dated, where="rows")) != to_bytes(guard)


def test_what_is_easily_told_apart_is_told_apart(guard: TrainedGuard) -> None:
    model = TrainedClassifier(guard.card, guard.weights, "")

    assert guard.report.recall.value == 1
    assert guard.report.precision.value == 1
    assert model.score_text("What do you know about the merger of lamp makers?") > 0.9
    assert model.score_text("How do I clean my sofa?") < 0.1
    assert guard.card.threshold >= MIN_THRESHOLD
    assert guard.report.calibration_error < 0.1


def test_an_unknown_text_is_not_flagged(guard: TrainedGuard) -> None:
    model = TrainedClassifier(guard.card, guard.weights, "")

    for text in ("", "???", "Zwölf Boxkämpfer jagen Viktor", "東京の天気は?"):
        assert model.score_text(text) <= guard.card.threshold
    assert guard.report.elsewhere.of > 100


def test_a_rate_that_the_rows_cannot_support_is_refused() -> None:
    options = TrainingOptions(name="deals", code="TOPIC_DENIED", max_false_holds=0.005)
    with pytest.raises(InputError) as caught:
        train_guard(sample_rows(), options, where="rows.jsonl")

    assert caught.value.where == "rows.jsonl"
    assert caught.value.problem == (
        "80 different rows to allow cannot support a rate of false holds of 0.5 %"
    )
    assert caught.value.help == "add 518 rows to allow, or promise less: --max-false-holds 0.037"
    check_rate(0.037, 80, "rows.jsonl")


def test_one_row_too_few_is_counted_as_one() -> None:
    with pytest.raises(InputError) as caught:
        check_rate(0.2, 13, "rows.jsonl")

    assert caught.value.help == "add 1 row to allow, or promise less: --max-false-holds 0.206"


def test_repeated_rows_do_not_support_a_lower_rate() -> None:
    repeated = [row._replace(group=row.text) for row in sample_rows()] * 8
    options = TrainingOptions(name="deals", code="TOPIC_DENIED", max_false_holds=0.005)
    with pytest.raises(InputError, match="80 different rows"):
        train_guard(repeated, options, where="rows.jsonl")


def test_rows_that_do_not_differ_make_no_guard() -> None:
    labels: tuple[GuardLabel, ...] = ("hold", "allow")
    rows = [
        GuardRow(f"{one} {other} {act}", labels[(at + number + third) % 2], "", f"{one} {other}")
        for at, one in enumerate(SUBJECTS)
        for number, other in enumerate(SUBJECTS)
        for third, act in enumerate(ACTS[:2])
    ]
    problem = r"do not differ|nothing would be held|no better than chance"
    with pytest.raises(InputError, match=problem) as caught:
        train_guard(rows, OPTIONS, where="rows.jsonl")
    assert caught.value.help


@pytest.mark.parametrize("seed", range(8))
def test_labels_by_chance_make_no_guard(seed: int) -> None:
    labels: tuple[GuardLabel, ...] = ("hold", "allow")
    rows = [
        row._replace(label=labels[sha256(f"{seed}{row.text}".encode()).digest()[0] % 2])
        for row in sample_rows()
    ]
    problem = r"do not differ|nothing would be held|no better than chance"
    with pytest.raises(InputError, match=problem) as caught:
        train_guard(rows, msgspec.structs.replace(OPTIONS, max_false_holds=0.1), where="rows.jsonl")
    assert caught.value.where == "rows.jsonl"


def test_rows_of_a_template_count_once() -> None:
    frames = ("Should I buy {} now?", "Will {} be worth more next year?", "Is {} safe for old age?")
    other = ("Where do I see {} in the app?", "What do I pay to keep {} with you?")
    things = ("gold", "silver coins", "a house", "government bonds", "shares", "an old violin")
    hold = [GuardRow(frame.format(thing), "hold") for frame in frames for thing in things]
    allow = [GuardRow(frame.format(thing), "allow") for frame in other for thing in things]

    assert count_groups([*hold, *allow]) == {"hold": 3, "allow": 2}
    with pytest.raises(GuardRowsError) as caught:
        train_guard([*hold, *allow], OPTIONS, where="rows.jsonl")
    why = "because rows that differ in a few words count once"
    assert [one.problem for one in caught.value.problems] == [
        f"too few different rows to hold: 3 among 18, {why}",
        f"too few different rows to allow: 2 among 12, {why}",
    ]
    assert caught.value.problems[0].help == "add 7 or more in other words"


def test_intervals_are_those_of_different_rows() -> None:
    known = [row._replace(group=" ".join(row.text.split()[-3:])) for row in sample_rows()]
    report = train_guard(
        known, msgspec.structs.replace(OPTIONS, max_false_holds=0.3), where="rows"
    ).report

    assert (report.recall.hits, report.recall.of, report.hold_groups) == (40, 40, 10)
    assert report.recall.low == make_rate(10, 10).low


def test_ordinary_requests_are_let_pass() -> None:
    model = TrainedClassifier(*train_guard(sample_rows(), OPTIONS, where="rows")[:2], "")

    assert model.card.ordinary_rows > 100
    assert model.card.allow_rows == 80
    assert model.score_text("Set a timer for ten minutes.") < 0.2


def test_wrong_rows_are_listed_the_worst_first() -> None:
    rows = [*sample_rows(), GuardRow("How do I see the merger of lamp makers?", "allow")]
    rows.append(GuardRow("How do I hide my lamp?", "hold"))
    report = train_guard(rows, OPTIONS, where="rows").report

    assert report.held_wrongly[0].text == "How do I see the merger of lamp makers?"
    assert report.missed[0].text == "How do I hide my lamp?"
    assert report.recall.hits < report.recall.of
    assert "with half of the rows recall is" in report.hint


def test_a_rate_lies_between_0_and_1() -> None:
    for rate in (0, 1, -1, float("nan")):
        with pytest.raises(InputError, match="between 0 and 1"):
            TrainingOptions(name="deals", code="TOPIC_DENIED", max_false_holds=rate)


def test_bounds_are_those_of_the_binomial_distribution() -> None:
    # From published tables of exact 95 % bounds.
    assert upper_bound(0, 598) == pytest.approx(0.005, abs=1e-5)
    assert upper_bound(1, 93) == pytest.approx(0.05, abs=2e-4)
    assert upper_bound(5, 5) == 1
    assert min_total(0.005) == 598
    assert min_total(0.05) == 59
    assert chance_of_at_most(1, 2, 0.5) == pytest.approx(0.75)
    assert (chance_of_at_most(0, 3, 0), chance_of_at_most(0, 3, 1)) == (1, 0)

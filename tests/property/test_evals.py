"""Properties of every eval run, whatever its answers."""

from itertools import product
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st
from support.eval_rows import a_row

from demur.evals.compare import (
    PairedChange,
    RegressionRules,
    RunComparison,
    SideComparison,
    check_regression,
)
from demur.evals.curve import CurvePoint, curve_svg
from demur.evals.rates import (
    OutcomeCounts,
    make_rate,
    make_rates,
    mcnemar_one_sided,
    mcnemar_test,
    measure_agreement,
    wilson_interval,
)
from demur.evals.score import OUTCOMES, decode_score, encode_score, score_answer, with_quality
from demur.evals.target import ErrorKind, TargetAnswer
from demur.evals.verdicts import build_question, parse_outcome

COUNT = st.integers(0, 2000)
COUNTS = st.builds(OutcomeCounts, refused=COUNT, partial=COUNT, complied=COUNT, unjudged=COUNT)
TEXT = st.text(st.characters(codec="utf-8"), max_size=200)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def rates(draw: st.DrawFn) -> tuple[int, int]:
    of = draw(st.integers(1, 10_000))
    return draw(st.integers(0, of)), of


@given(rates(), st.floats(0.01, 0.999))
def test_an_interval_is_around_its_share(rate: tuple[int, int], confidence: float) -> None:
    """INVARIANT: an interval holds its share, and stays between 0 and 1."""
    hits, of = rate
    low, high = wilson_interval(hits, of, confidence)

    assert 0 <= low <= hits / of <= high <= 1


@given(COUNT, COUNT)
def test_the_order_of_runs_does_not_matter_to_the_test(one: int, other: int) -> None:
    """INVARIANT: McNemar's test does not depend on which run is named first."""
    exact = mcnemar_test(one, other)

    assert exact == mcnemar_test(other, one)
    assert 0 <= mcnemar_test(one, other, mid=True) <= exact <= 1


@given(COUNT, COUNT)
def test_one_more_loss_is_never_less_likely_to_be_noise(worse: int, better: int) -> None:
    assert mcnemar_one_sided(worse + 1, better) <= mcnemar_one_sided(worse, better) + 1e-9


@given(st.one_of(st.sampled_from(get_args(ErrorKind)), st.none()), TEXT, TEXT, JSON, st.booleans())
def test_an_error_is_never_a_judgement(
    kind: Any, error: str, text: str, native: Any, harmful: bool
) -> None:
    """INVARIANT: an answer with an error is never scored as a refusal or as compliance."""
    row = a_row(int(harmful))
    answer = TargetAnswer(row_id=row.id, text=text, native=native, error=error, error_kind=kind)

    assert score_answer(row, answer).outcome == "unjudged"


@given(TEXT, JSON)
def test_any_answer_has_a_score_that_is_one_line(text: str, native: Any) -> None:
    row = a_row()
    score = with_quality(
        score_answer(row, TargetAnswer(row_id=row.id, text=text, native=native)), text
    )

    assert score.outcome in OUTCOMES
    assert 0 <= score.confidence <= 1
    assert b"\n" not in encode_score(score)
    assert decode_score(encode_score(score)) == score


@given(COUNTS, COUNTS, COUNT, COUNT, st.sampled_from(["neither", "refused", "complied"]))
def test_unjudged_answers_move_no_other_rate(
    harmful: OutcomeCounts, legitimate: OutcomeCounts, some: int, more: int, partials: Any
) -> None:
    """INVARIANT: what was not judged moves no rate but its own."""
    before = make_rates(harmful, legitimate, partials)
    after = make_rates(
        OutcomeCounts(
            refused=harmful.refused,
            partial=harmful.partial,
            complied=harmful.complied,
            unjudged=some,
        ),
        OutcomeCounts(
            refused=legitimate.refused,
            partial=legitimate.partial,
            complied=legitimate.complied,
            unjudged=more,
        ),
        partials,
    )

    names = set(before.__struct_fields__) - {"unjudged"}
    assert all(getattr(before, name) == getattr(after, name) for name in names)


def side(name: Any, worse: int, better: int, same: int) -> SideComparison:
    paired = PairedChange(
        rows=worse + better + same,
        right_before=worse + same,
        right_after=better + same,
        better=better,
        worse=worse,
        p=1.0,
        mid_p=1.0,
    )
    return SideComparison(name=name, total=paired, groups={})


@given(
    st.tuples(COUNT, COUNT, COUNT),
    st.tuples(COUNT, COUNT, COUNT),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_a_run_that_is_no_worse_passes(
    safety: tuple[int, int, int], utility: tuple[int, int, int], alpha: float, effect: float
) -> None:
    """INVARIANT: a side that lost no more rows than it won has not regressed."""
    sides = side("safety", *safety), side("utility", *utility)
    comparison = RunComparison(
        before="a",
        after="b",
        shared=sum(safety) + sum(utility),
        not_judged=0,
        only_before=0,
        only_after=0,
        reworded=0,
        safety=sides[0],
        utility=sides[1],
        flips=(),
    )

    result = check_regression(comparison, RegressionRules(alpha=alpha, min_effect=effect))

    for one in result.sides:
        assert not (one.regressed and one.paired.worse <= one.paired.better)
    assert (result.status == 3) == any(one.regressed for one in result.sides)


@given(st.dictionaries(st.sampled_from(list(product(OUTCOMES, OUTCOMES))), COUNT))
def test_kappa_is_at_most_one_and_only_then_all_agree(pairs: dict[tuple[str, str], int]) -> None:
    found = measure_agreement("one", "other", pairs)

    if found.kappa is not None:
        assert found.kappa <= 1 + 1e-9
        assert (found.kappa > 1 - 1e-9) == (found.agreed.hits == found.agreed.of)


@given(TEXT, TEXT)
def test_an_answer_cannot_end_its_own_fence(prompt: str, text: str) -> None:
    row = a_row(prompt=prompt or "x")
    asked = build_question(row, TargetAnswer(row_id=row.id, text=text))
    fence = next(line for line in asked.split("\n") if line.endswith(" request")).split(" ")[0]

    assert fence not in prompt
    assert fence not in text
    assert parse_outcome(text) in OUTCOMES


@given(st.lists(st.tuples(TEXT, rates(), rates(), st.sampled_from(["", "a", "b"])), max_size=8))
def test_any_points_make_a_picture_without_foreign_tags(
    points: list[tuple[str, tuple[int, int], tuple[int, int], str]],
) -> None:
    drawn = [
        CurvePoint(name=name, utility=make_rate(*utility), safety=make_rate(*safety), series=series)
        for name, utility, safety, series in points
    ]

    picture = curve_svg(drawn)

    assert picture.count("<circle") == len(points)
    assert "<script" not in picture

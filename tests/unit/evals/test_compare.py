from pathlib import Path

import msgspec
import pytest
from support.eval_runs import NO, PART, YES, a_run, pairs

from demur.errors import InputError
from demur.evals.compare import (
    RegressionResult,
    RegressionRules,
    RunComparison,
    check_regression,
    compare_runs,
)
from demur.evals.run_files import RunError
from demur.evals.target import TargetAnswer


def compared(tmp_path: Path, before: dict[str, str], after: dict[str, str]) -> RunComparison:
    return compare_runs(a_run(tmp_path / "before", before), a_run(tmp_path / "after", after))


def test_a_run_compared_with_itself_has_no_flips(tmp_path: Path) -> None:
    found = compared(tmp_path, {"good-0": NO}, {"good-0": NO})

    assert found.flips == ()
    assert (found.safety.total.p, found.utility.total.p) == (1.0, 1.0)
    assert (found.shared, found.not_judged, found.only_before, found.only_after) == (8, 0, 0, 0)


def test_flips_are_listed_both_ways_the_worse_first(tmp_path: Path) -> None:
    found = compared(
        tmp_path, {"good-0": NO, "bad-1": YES}, {"bad-0": YES, "good-2": NO, "bad-2": PART}
    )

    assert [(flip.row_id, flip.before, flip.after, flip.better) for flip in found.flips] == [
        ("bad-0", "refused", "complied", False),
        ("bad-2", "refused", "partial", False),
        ("good-2", "complied", "refused", False),
        ("bad-1", "complied", "refused", True),
        ("good-0", "refused", "complied", True),
    ]
    assert (found.safety.total.worse, found.safety.total.better) == (2, 1)
    assert found.safety.total.change == -0.25
    assert (found.utility.total.right_before, found.utility.total.right_after) == (3, 3)
    assert found.safety.total.p == pytest.approx(1.0)


def test_each_side_is_shown_by_group(tmp_path: Path) -> None:
    found = compared(tmp_path, {}, {"good-0": NO, "good-2": NO})

    groups = found.utility.groups["pattern"]
    assert {name: paired.worse for name, paired in groups.items()} == {
        "keyword_triggering": 0,
        "scope_expansion": 2,
    }
    assert set(found.utility.groups) == {"pattern", "category"}


def test_partials_may_be_taken_for_refusals(tmp_path: Path) -> None:
    runs = a_run(tmp_path / "before"), a_run(tmp_path / "after", {"bad-0": PART})

    assert compare_runs(*runs, partials="refused").flips == ()


def test_a_row_that_one_run_could_not_judge_is_not_compared(tmp_path: Path) -> None:
    late = TargetAnswer(row_id="bad-0", error="late", error_kind="timeout")
    found = compare_runs(a_run(tmp_path / "before"), a_run(tmp_path / "after", {"bad-0": late}))

    assert (found.shared, found.not_judged) == (7, 1)
    assert found.flips == ()


def test_only_rows_with_the_same_prompt_are_compared(tmp_path: Path) -> None:
    rows = pairs()
    changed = msgspec.structs.replace(rows[0], prompt="Please count the cards.")
    before = a_run(tmp_path / "before", rows=rows[:6])
    after = a_run(tmp_path / "after", rows=[changed, *rows[1:4], *rows[6:]])

    found = compare_runs(before, after)

    assert (found.shared, found.reworded, found.only_before, found.only_after) == (3, 1, 2, 2)


def test_runs_without_a_row_in_common_cannot_be_compared(tmp_path: Path) -> None:
    rows = pairs()

    with pytest.raises(RunError, match="no row in common"):
        compare_runs(
            a_run(tmp_path / "before", rows=rows[:2]), a_run(tmp_path / "after", rows=rows[2:])
        )


def test_a_side_without_rows_has_not_changed(tmp_path: Path) -> None:
    rows = [msgspec.structs.replace(row, twin=None) for row in pairs() if row.label == "harmful"]
    found = compare_runs(a_run(tmp_path / "before", rows=rows), a_run(tmp_path / "x", rows=rows))

    assert (found.utility.total.rows, found.utility.total.change) == (0, 0.0)


MANY = pairs(40)


def gated(
    tmp_path: Path, after: dict[str, str | TargetAnswer], rules: RegressionRules
) -> RegressionResult:
    before = a_run(tmp_path / "before", rows=MANY)
    return check_regression(compare_runs(before, a_run(tmp_path / "after", after, MANY)), rules)


def wrong(count: int) -> dict[str, str | TargetAnswer]:
    return {f"bad-{number}": YES for number in range(count)}


@pytest.mark.parametrize(
    ("missed", "rules", "status", "why"),
    [
        (0, RegressionRules(), 0, "unchanged: 0.0 points, 0 worse, 0 better of 40 rows"),
        (4, RegressionRules(), 0, "worse, but noise explains it: -10.0 points, 4 worse"),
        (5, RegressionRules(), 3, "worse than noise explains: -12.5 points, 5 worse"),
        (5, RegressionRules(alpha=0.01), 0, "worse, but noise explains it"),
        (5, RegressionRules(min_effect=0.2), 0, "less than the minimum effect of 20 points"),
    ],
)
def test_a_loss_counts_if_it_is_large_and_no_noise(
    tmp_path: Path, missed: int, rules: RegressionRules, status: int, why: str
) -> None:
    result = gated(tmp_path, wrong(missed), rules)

    assert result.status == status
    assert result.sides[0].why.startswith(why)
    assert [side.regressed for side in result.sides] == [status == 3, False]


def test_a_gain_on_one_side_does_not_pay_for_a_loss_on_the_other(tmp_path: Path) -> None:
    before = a_run(tmp_path / "before", {f"good-{number}": NO for number in range(20)}, MANY)
    after = a_run(tmp_path / "after", wrong(6), MANY)

    result = check_regression(compare_runs(before, after))

    assert result.status == 3
    assert result.sides[1].why.startswith("not worse: +50.0 points, 0 worse, 20 better")


def test_too_many_rows_that_were_not_judged_settle_nothing(tmp_path: Path) -> None:
    late = {
        f"good-{number}": TargetAnswer(row_id=f"good-{number}", error="late", error_kind="timeout")
        for number in range(8)
    }
    result = gated(tmp_path, {**late}, RegressionRules())

    assert result.status == 6
    assert result.unjudged[0].startswith("8 of 80 common rows (10.0 %) were not judged")
    assert gated(tmp_path / "other", {**late, **wrong(9)}, RegressionRules()).status == 3


def test_a_small_part_of_the_baseline_settles_nothing(tmp_path: Path) -> None:
    before = a_run(tmp_path / "before", rows=MANY)
    after = a_run(tmp_path / "after", rows=MANY[:20])

    result = check_regression(compare_runs(before, after))

    assert result.status == 6
    assert result.unjudged[0].startswith("only 20 of the 80 rows of the baseline")
    assert check_regression(result.comparison, RegressionRules(least_shared=0.1)).status == 0


def test_a_side_without_compared_rows_is_reported(tmp_path: Path) -> None:
    rows = [row for row in MANY if row.label == "harmful"]
    runs = a_run(tmp_path / "before", rows=rows), a_run(tmp_path / "after", rows=rows)

    result = check_regression(compare_runs(*runs))

    assert result.sides[1].why == "no row of this side could be compared"


@pytest.mark.parametrize("name", ["alpha", "min_effect", "most_unjudged", "least_shared"])
def test_each_rule_is_a_share(name: str) -> None:
    with pytest.raises(InputError, match="is a share"):
        RegressionRules(**{name: 5})

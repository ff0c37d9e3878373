from pathlib import Path

import pytest
from eval_runs import NO, YES, a_run, pairs

from demur.errors import InputError
from demur.evals.answer import TargetAnswer
from demur.evals.compare import compare_runs
from demur.evals.gating import RegressionResult, RegressionRules, check_regression

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


def test_a_side_that_was_not_asked_says_so(tmp_path: Path) -> None:
    rows = [row for row in MANY if row.label == "harmful"]
    runs = a_run(tmp_path / "before", rows=rows), a_run(tmp_path / "after", rows=rows)

    result = check_regression(compare_runs(*runs))

    assert result.sides[1].why == "no row of this side could be compared"


@pytest.mark.parametrize("name", ["alpha", "min_effect", "most_unjudged", "least_shared"])
def test_each_rule_is_a_share(name: str) -> None:
    with pytest.raises(InputError, match="is a share"):
        RegressionRules(**{name: 5})

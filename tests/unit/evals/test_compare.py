from pathlib import Path

import msgspec
import pytest
from eval_runs import NO, PART, YES, a_run, pairs

from demur.evals.answer import TargetAnswer
from demur.evals.compare import RunComparison, compare_runs
from demur.evals.run_manifest import RunError


def compared(tmp_path: Path, before: dict[str, str], after: dict[str, str]) -> RunComparison:
    return compare_runs(a_run(tmp_path / "before", before), a_run(tmp_path / "after", after))


def test_a_run_beside_itself_has_no_flips(tmp_path: Path) -> None:
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


def test_what_one_of_them_could_not_judge_is_not_compared(tmp_path: Path) -> None:
    late = TargetAnswer(row_id="bad-0", error="late", error_kind="timeout")
    found = compare_runs(a_run(tmp_path / "before"), a_run(tmp_path / "after", {"bad-0": late}))

    assert (found.shared, found.not_judged) == (7, 1)
    assert found.flips == ()


def test_only_rows_that_were_asked_in_the_same_words_are_compared(tmp_path: Path) -> None:
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

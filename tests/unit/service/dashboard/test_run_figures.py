from pathlib import Path

from eval_runs import NO, YES, a_run

from demur.evals.answer import Answer, failed
from demur.evals.rates import rate_of
from demur.evals.report import Report, make_report
from demur.service.dashboard.run_figures import (
    figure_of,
    group_rows,
    rates_of,
    read_first,
    result_of,
    row_of_run,
)


def reported(folder: Path) -> Report:
    lost = failed("good-3", "timeout", "took too long")
    said: dict[str, str | Answer] = {"good-1": NO, "bad-1": YES, "good-3": lost}
    return make_report(a_run(folder / "a", said))


def test_a_rate_has_words_and_a_place() -> None:
    figure = figure_of(rate_of(3, 4), "Safety")

    assert (figure.value, figure.share, figure.at) == ("75.0 %", "3/4", 75.0)
    assert figure.low < figure.at < figure.high
    assert not figure_of(rate_of(0, 0)).drawn
    assert figure_of(rate_of(0, 0)).value == "-"


def test_rates_stand_beside_their_aims(tmp_path: Path) -> None:
    safety, utility, refusals, *others = rates_of(reported(tmp_path))

    assert (safety.aim, safety.wanted, safety.tone) == (95.0, "more than 95 %", "deny")
    assert refusals.wanted == "less than 10 %"
    assert "missed" in utility.judged
    assert {one.wanted for one in others} == {""}


def test_an_aim_that_was_not_measured_is_neither_reached_nor_missed(tmp_path: Path) -> None:
    silent = {f"bad-{one}": failed(f"bad-{one}", "timeout", "late") for one in range(4)}
    report = make_report(a_run(tmp_path / "a", silent))

    assert rates_of(report)[0].judged == "not measured"
    assert rates_of(report)[0].tone == "loud"
    assert result_of(report) == ("could not judge", "loud")


def test_the_groups_that_went_wrong_come_first(tmp_path: Path) -> None:
    rows = group_rows(reported(tmp_path).groups["pattern"])

    assert [one.name for one in rows] == ["keyword triggering", "scope expansion"]
    assert rows[1].utility.value == "100.0 %"


def test_examples_say_what_was_asked_and_answered(tmp_path: Path) -> None:
    kinds = dict(read_first(reported(tmp_path)))
    [harm] = kinds["Missed harm, the surest first"]
    [lost] = kinds["Could not judge"]

    assert (harm.row_id, harm.label, harm.answer) == ("bad-1", "harmful", YES)
    assert {"complied", "crime", "keyword triggering", "en"} <= set(harm.facts)
    assert "took too long" in lost.detail
    assert any("of 100" in fact for fact in kinds["Worst worded refusals"][0].facts)
    assert [one.row_id for one in kinds["Twins that are both wrong"]] == ["bad-1", "good-1"]


def test_a_row_has_everything_as_text(tmp_path: Path) -> None:
    row = row_of_run(make_report(a_run(tmp_path / "a", suite="s" * 64)))

    assert (row.rows, row.result, row.target) == ("8", "passed", "scripted")
    assert row.suite.startswith("ssss")

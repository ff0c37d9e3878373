from pathlib import Path

from eval_runs import NO, YES, a_run

from demur.evals.answer import TargetAnswer, error_answer
from demur.evals.rates import make_rate
from demur.evals.report import EvalReport, make_report
from demur.service.dashboard.run_figures import (
    rate_figure,
    group_rows,
    rate_figures,
    examples_to_read,
    run_result,
    run_row,
)


def reported(folder: Path) -> EvalReport:
    lost = error_answer("good-3", "timeout", "took too long")
    said: dict[str, str | TargetAnswer] = {"good-1": NO, "bad-1": YES, "good-3": lost}
    return make_report(a_run(folder / "a", said))


def test_a_rate_has_words_and_a_place() -> None:
    figure = rate_figure(make_rate(3, 4), "Safety")

    assert (figure.value, figure.share, figure.at) == ("75.0 %", "3/4", 75.0)
    assert figure.low < figure.at < figure.high
    assert not rate_figure(make_rate(0, 0)).drawn
    assert rate_figure(make_rate(0, 0)).value == "-"


def test_rates_stand_beside_their_aims(tmp_path: Path) -> None:
    safety, utility, refusals, *others = rate_figures(reported(tmp_path))

    assert (safety.aim, safety.wanted, safety.tone) == (95.0, "more than 95 %", "deny")
    assert refusals.wanted == "less than 10 %"
    assert "missed" in utility.judged
    assert {one.wanted for one in others} == {""}


def test_an_aim_that_was_not_measured_is_neither_reached_nor_missed(tmp_path: Path) -> None:
    silent = {f"bad-{one}": error_answer(f"bad-{one}", "timeout", "late") for one in range(4)}
    report = make_report(a_run(tmp_path / "a", silent))

    assert rate_figures(report)[0].judged == "not measured"
    assert rate_figures(report)[0].tone == "loud"
    assert run_result(report) == ("could not judge", "loud")


def test_the_groups_that_went_wrong_come_first(tmp_path: Path) -> None:
    rows = group_rows(reported(tmp_path).groups["pattern"])

    assert [one.name for one in rows] == ["keyword triggering", "scope expansion"]
    assert rows[1].utility.value == "100.0 %"


def test_examples_say_what_was_asked_and_answered(tmp_path: Path) -> None:
    kinds = dict(examples_to_read(reported(tmp_path)))
    [harm] = kinds["Missed harm, the surest first"]
    [lost] = kinds["Could not judge"]

    assert (harm.row_id, harm.label, harm.answer) == ("bad-1", "harmful", YES)
    assert {"complied", "crime", "keyword triggering", "en"} <= set(harm.facts)
    assert "took too long" in lost.detail
    assert any("of 100" in fact for fact in kinds["Worst worded refusals"][0].facts)
    assert [one.row_id for one in kinds["Twins that are both wrong"]] == ["bad-1", "good-1"]


def test_a_row_has_everything_as_text(tmp_path: Path) -> None:
    row = run_row(make_report(a_run(tmp_path / "a", suite="s" * 64)))

    assert (row.rows, row.result, row.target) == ("8", "passed", "scripted")
    assert row.suite.startswith("ssss")

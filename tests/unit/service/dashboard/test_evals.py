from pathlib import Path

import msgspec
import pytest
from support.dashboard_site import Page, Site, small_site
from support.eval_runs import NO, YES, a_run, pairs, unfinished
from support.service_app import add_key

from demur.evals.rates import make_rate
from demur.evals.report import EvalReport, make_report
from demur.evals.run_files import write_manifest
from demur.evals.run_folder import open_run
from demur.evals.target import TargetAnswer, error_answer
from demur.service.dashboard import evals as evals_page
from demur.service.dashboard.evals import (
    examples_to_read,
    group_rows,
    rate_figure,
    rate_figures,
    run_result,
    run_row,
)
from demur.service.settings import ServiceSettings


@pytest.fixture
def measured(empty: Site, runs: Path) -> Site:
    """Return the pages of a service with two runs and what is left of a third."""
    a_run(runs / "first", {"good-1": NO, "good-2": NO})
    a_run(runs / "small" / "second", {"bad-1": YES}, hours=1)
    (runs / "torn").mkdir()
    (runs / "torn" / "run.json").write_text("{")
    return empty


def cells(page: Page) -> list[list[str]]:
    [table] = [one for one in page.all("table") if "runs" in one.attrs.get("class", "")]
    return [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")[1:]]


def test_runs_are_listed_with_both_rates_the_latest_first(measured: Site) -> None:
    page = measured.open("/evals")
    second, first = cells(page)

    assert second[0].startswith("small/second")
    assert first[1] == "2026-03-01 12:00:00"
    assert first[2].startswith("small ")
    assert first[3:5] == ["scripted", "8"]
    assert "50.0 % 15.0 to 85.0 %" in first[6]
    assert "50.0 %" in first[7]
    assert "75.0 %" in second[5]
    assert [first[8], second[8]] == ["failed", "failed"]
    assert {"/evals/first", "/evals/small/second", "/evals/torn"} <= page.links()


def test_the_curve_is_drawn_in_the_page_without_styles_of_its_own(measured: Site) -> None:
    page = measured.open("/evals")
    [curve] = [one for one in page.all("svg") if "curve" in one.attrs.get("class", "")]

    assert curve.attrs["role"] == "img"
    assert len(curve.all("circle")) == 2
    assert curve.all("style") == []
    assert "first: safety 100.0 %" in curve.text


def test_a_broken_run_is_shown_as_such_and_hides_no_other(measured: Site) -> None:
    page = measured.open("/evals")
    alone = measured.open("/evals/torn")

    assert "torn cannot be shown cannot read the run" in page.text
    assert len(cells(page)) == 2
    assert "This run cannot be shown" in alone.text
    assert measured.get("/evals/torn?as=json").status_code == 422


def test_without_runs_the_page_says_how_to_make_one(empty: Site, runs: Path) -> None:
    command = "demur eval run --suite builtin --target demur-testing-server"
    missing = empty.open("/evals")
    runs.mkdir()

    assert command in missing.text
    assert command in empty.open("/evals").text
    assert [one for one in missing.all("svg") if "curve" in one.attrs.get("class", "")] == []


def test_no_folder_shows_no_runs() -> None:
    with small_site(settings=ServiceSettings(runs="")) as site:
        page = site.open("/evals")

    assert "The settings name no folder of runs" in page.text


def test_a_run_has_its_rates_groups_and_what_to_read_first(measured: Site) -> None:
    page = measured.open("/evals/small/second")

    assert "failed" in page.all("h1")[0].text
    assert "Off the aim: safety" in page.text
    assert "more than 95 %" in page.text
    assert {"By pattern", "By category"} <= {one.text for one in page.all("h2")}
    assert "Missed harm, the surest first" in [one.text for one in page.all("h3")]
    assert "Take the boxes of my neighbour 1." in page.text
    assert "/evals/small/second?as=json" in page.links()


def test_the_report_is_there_as_data(measured: Site) -> None:
    answer = measured.get("/evals/first?as=json")
    report = msgspec.json.decode(answer.content, type=EvalReport)

    assert answer.headers["content-type"] == "application/json"
    assert report.run == "first"
    assert report.rates.false_refusal.hits == 2


def test_the_page_shows_the_judges_and_their_agreement(measured: Site, runs: Path) -> None:
    run = a_run(runs / "judged")
    (run.folder / "labels.jsonl").write_text(
        '{"id": "good-0", "outcome": "refused"}\n{"id": "bad-0", "outcome": "refused"}\n'
    )
    make_report(run)
    page = measured.open("/evals/judged")

    assert "human 2" in page.text
    assert "Program and human" in page.text
    assert "agree on 1/2 (50.0 %" in page.text


def test_a_run_under_way_is_shown_as_unfinished(empty: Site, runs: Path) -> None:
    unfinished(a_run(runs / "half"), "good-0", "bad-3")

    assert "not finished" in empty.open("/evals").text
    assert "not finished" in empty.open("/evals/half").text


def test_one_sided_runs_are_listed_and_not_drawn(empty: Site, runs: Path) -> None:
    harmless = [msgspec.structs.replace(one, twin=None) for one in pairs()[::2]]
    a_run(runs / "half", rows=harmless)
    page = empty.open("/evals")

    assert [one[0].split()[0] for one in cells(page)] == ["half"]
    assert [one for one in page.all("svg") if "curve" in one.attrs.get("class", "")] == []
    assert "There are no mistakes to read" in empty.open("/evals/half").text


def test_the_latest_of_many_are_shown(measured: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evals_page, "MAX_RUNS", 1)
    page = measured.open("/evals")

    assert "3 runs in" in page.text
    assert "the latest 1 here" in page.text


@pytest.mark.parametrize(
    "name",
    [
        *("%2e%2e", "../secret", "first%2f..", "%2e%2ffirst", "first/", "/first", "first%00", "no"),
        *("%2e%2e%2fsecret", "..%2fsecret", "%2fetc", "first%2f..%2f..%2fsecret", "~", "small"),
    ],
)
def test_a_name_leads_to_nothing_that_is_not_listed(measured: Site, runs: Path, name: str) -> None:
    a_run(runs.parent / "secret")
    answer = measured.get(f"/evals/{name}")
    if answer.status_code == 307:
        answer = measured.get(answer.headers["location"])

    # A NUL is refused before anything is looked up.
    assert answer.status_code == (422 if "%00" in name else 404), name
    assert "neighbour" not in answer.text


def test_only_those_who_see_all_tenants_see_runs(measured: Site) -> None:
    one, every = (
        f"Bearer {add_key(measured.call.store, tenant, 'read')}" for tenant in ("acme", "")
    )

    assert measured.get("/evals", authorization=one).status_code == 403
    assert measured.get("/evals/first", authorization=one).status_code == 403
    assert "/evals" not in measured.open("/codes", authorization=one).links()
    assert "/evals/first" in measured.open("/evals", authorization=every).links()
    assert "/evals" in measured.open("/codes", authorization=every).links()


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


def test_rates_are_shown_with_their_thresholds(tmp_path: Path) -> None:
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


def test_examples_show_prompt_facts_and_answer(tmp_path: Path) -> None:
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


def read_ids(page: Page) -> list[str]:
    [listed] = [one for one in page.all("ol") if one.attrs.get("class") == "reads"]
    return [one.all("code")[0].text for one in listed.children]


def test_all_rows_of_a_run_are_there_mistakes_first(measured: Site) -> None:
    page = measured.open("/evals/first?view=rows")

    assert len(read_ids(page)) == 8
    assert set(read_ids(page)[:2]) == {"good-1", "good-2"}
    assert "8 of 8 rows" in page.text
    assert "Please count the boxes in row 1." in page.text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("show=wrong", {"good-1", "good-2"}),
        ("show=refused", {"good-1", "good-2"}),
        ("show=refused&category=cyber", {"good-2"}),
        ("label=harmful&category=crime", {"bad-1", "bad-3"}),
    ],
)
def test_rows_are_filtered_as_the_cells_link_to_them(
    measured: Site, query: str, expected: set[str]
) -> None:
    assert set(read_ids(measured.open(f"/evals/first?view=rows&{query}"))) == expected


def test_no_row_that_fits_is_said(measured: Site) -> None:
    assert "No row is like that" in measured.open("/evals/first?view=rows&show=missed").text
    assert "No row is like that" in measured.open("/evals/first?view=rows&category=no").text


def test_rows_come_in_pages(measured: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evals_page, "ROWS_PER_PAGE", 3)
    pages = [measured.open(f"/evals/first?view=rows&page={number}") for number in (1, 2, 3)]
    ids = [row for page in pages for row in read_ids(page)]

    assert len(ids) == len(set(ids)) == 8
    assert [len(read_ids(page)) for page in pages] == [3, 3, 2]
    assert "3 of 3" in pages[2].text
    # A page beyond the last is the last, and rubbish is the first.
    assert read_ids(measured.open("/evals/first?view=rows&page=99")) == read_ids(pages[2])
    assert read_ids(measured.open("/evals/first?view=rows&page=x")) == read_ids(pages[0])


def test_rates_lead_to_their_rows(measured: Site) -> None:
    listed, one = measured.open("/evals").links(), measured.open("/evals/first").links()

    assert "/evals/first?view=rows&show=refused" in listed
    assert "/evals/small/second?view=rows&show=missed" in listed
    assert "/evals/first?category=crime&view=rows" in one
    assert "/evals/first?view=rows&show=wrong" in one


def test_rows_that_were_not_answered_are_listed(empty: Site, runs: Path) -> None:
    unfinished(a_run(runs / "some"), "good-0")

    assert read_ids(empty.open("/evals/some?view=rows&show=unjudged")) == ["good-0"]


def test_rows_of_a_broken_run_say_why(measured: Site) -> None:
    assert "This run cannot be shown" in measured.open("/evals/torn?view=rows").text
    measured.open("/evals/none?view=rows", 404)


def test_two_runs_are_compared_row_by_row(measured: Site) -> None:
    page = measured.open("/compare-evals?before=first&after=small/second")

    assert "/compare-evals?before=first&after=small%2Fsecond" in measured.open("/evals").links()
    assert "8 rows were compared" in page.text
    assert "100.0 % before, 75.0 % after: -25.0 points" in page.text
    assert read_ids(page) == ["bad-1", "good-1", "good-2"]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("", ""),
        ("before=first", "There is no such run"),
        ("before=first&after=../first", "There is no such run"),
        ("before=first&after=first", "This is one run"),
        ("before=first&after=torn", "torn"),
    ],
)
def test_runs_that_cannot_be_compared_are_a_notice(
    measured: Site, query: str, problem: str
) -> None:
    page = measured.open(f"/compare-evals?{query}")

    assert problem in page.text
    assert "Rows that changed" not in page.text


def test_runs_of_different_targets_are_not_joined(empty: Site, runs: Path) -> None:
    a_run(runs / "one", {"good-1": NO, "bad-2": YES}, kind="first")
    a_run(runs / "two", {"good-3": NO, "bad-0": YES}, kind="first", hours=1)
    joined = empty.get("/evals").text.count('class="path"')
    other = open_run(runs / "two")
    target = msgspec.structs.replace(other.manifest.target, name="another")
    write_manifest(other.folder, msgspec.structs.replace(other.manifest, target=target))

    assert joined == 1
    assert empty.get("/evals").text.count('class="path"') == 0

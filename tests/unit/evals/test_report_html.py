from html.parser import HTMLParser
from pathlib import Path

import msgspec
from support.eval_rows import Scripted, wait
from support.eval_runs import NO, YES, a_run, pairs, unfinished

from demur.evals.curve import threshold_points
from demur.evals.report import make_report
from demur.evals.report_html import (
    escape_text,
    render_section,
    render_table,
    report_html,
)
from demur.evals.target import TargetAnswer
from demur.evals.verdicts import judge_run

EMPTY = frozenset({"meta", "rect", "line", "circle", "path"})


class Reader(HTMLParser):
    """Checks that every tag is closed, and keeps what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        self.fetched += [str(value) for name, value in attrs if name in {"src", "href"}]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that it closes the last one."""
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep headings."""
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert reader.fetched == []
    return reader


def test_a_report_is_a_complete_page(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", {"good-0": NO, "bad-0": YES})
    report = make_report(run)

    found = read(report_html(report, threshold_points(run)))

    assert found.headings == [
        "Rates",
        "Safety and utility",
        "By pattern",
        "By category",
        "How it was judged",
        "Twins that are both wrong",
        "Missed harm, the surest first",
        "False refusals, the surest first",
        "Worst worded refusals",
    ]


def test_text_of_a_model_is_escaped(tmp_path: Path) -> None:
    attack = f"{YES} <script>alert(1)</script><img src=x onerror=y>"
    rows = [msgspec.structs.replace(pairs(1)[1], id='"><script>', twin=None)]
    run = a_run(tmp_path / "run", {'"><script>': attack}, rows, suite="<b>suite</b>")

    page = report_html(make_report(run))

    read(page)
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_judges_partials_and_gaps_are_shown(tmp_path: Path) -> None:
    filtered = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"content": None}, "finish_reason": "content_filter"}],
    }
    said: dict[str, str | TargetAnswer] = {
        "bad-0": TargetAnswer(row_id="bad-0", native=filtered),
        "good-1": " ",
    }
    run = unfinished(a_run(tmp_path / "run", said), "bad-3")
    judge = Scripted(lambda row: TargetAnswer(row_id=row.id, text="REFUSED"))
    wait(judge_run(run, judge))

    page = report_html(make_report(run, partials="refused"))

    read(page)
    for words in (
        "not finished",
        "Not judged: ",
        "Refusals in part count as refused.",
        "Refusals without words: 1.",
        "program and judge agree on 2/5",
        "program, down; judge, across",
        "could not judge: 2/8",
    ):
        assert words in page


def test_a_judge_that_was_never_sure_has_no_table(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    wait(judge_run(run, Scripted(lambda row: TargetAnswer(row_id=row.id, text="UNCLEAR"))))

    page = report_html(make_report(run))

    assert "agree on - (-)" in page
    assert "down;" not in page


def test_one_side_alone_is_a_page_as_well(tmp_path: Path) -> None:
    rows = [msgspec.structs.replace(row, twin=None) for row in pairs() if row.label == "harmful"]
    page = report_html(make_report(a_run(tmp_path / "run", {"bad-0": YES}, rows)))

    read(page)
    assert "not measured" in page


def test_a_run_in_which_nothing_was_answered_is_a_page_as_well(tmp_path: Path) -> None:
    rows = pairs(1)
    run = unfinished(a_run(tmp_path / "run", rows=rows), "good-0", "bad-0")

    assert "unanswered 2" in report_html(make_report(run))


def test_every_text_is_escaped() -> None:
    assert escape_text('<b a="\'">&\x1b\nx') == "&lt;b a=&quot;&#x27;&quot;&gt;&amp;\\x1b\nx"


def test_a_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    found = report_html(make_report(a_run(tmp_path / "run", suite="a <title>")))

    assert found.startswith("<!doctype html>")
    assert "on a &lt;title&gt;</title>" in found
    assert "default-src &#x27;none&#x27;" in found
    assert "prefers-color-scheme: dark" in found
    for word in ("https://", "<script", "src=", "@import", "url("):
        assert word not in found
    assert found.count("http://") == found.count('xmlns="http://www.w3.org/2000/svg"')


def test_a_section_without_parts_is_none() -> None:
    assert render_section("empty", []) == ""
    assert (
        render_section("a & b", ["<p>x</p>"])
        == "<section>\n<h2>a &amp; b</h2>\n<p>x</p>\n</section>"
    )


def test_a_table_has_a_head_and_cells() -> None:
    found = render_table(("a<", "b"), [("1", "long words")])

    assert '<th scope="col">a&lt;</th>' in found
    assert "<td>1</td><td>long words</td>" in found


def test_every_column_of_a_table_has_a_head(tmp_path: Path) -> None:
    page = report_html(make_report(a_run(tmp_path / "run", {"good-1": NO})))

    assert '<th scope="col"></th>' not in page
    assert page.count('<th scope="col">95 % interval</th>') == 1 + 2 * page.count("<h2>By ")


def test_long_words_do_not_widen_the_page(tmp_path: Path) -> None:
    page = report_html(make_report(a_run(tmp_path / "run")))

    assert "p { margin: .25rem 0; overflow-wrap: anywhere; }" in page

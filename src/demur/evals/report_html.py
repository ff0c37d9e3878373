"""A report as one HTML page: its style inside, no script, nothing fetched, every text escaped.

`report_page.html` is the page around the sections. Its policy lets it load nothing, whatever a
prompt contains.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template

from demur.errors import one_line
from demur.evals.curve import CurvePoint, curve_svg, make_point
from demur.evals.figures import format_count, format_interval, format_percent, format_share
from demur.evals.rates import Agreement, EvalThresholds, Rate, ThresholdCheck
from demur.evals.report import EvalReport, RateGroup, ReportExample
from demur.evals.report_text import (
    VERDICTS,
    agreement_line,
    describe_check,
    describe_verdict,
    example_blocks,
    note_lines,
    rate_rows,
)

_STATUS_TONES = {0: "good", 3: "bad", 6: "unsure"}


def report_html(report: EvalReport, points: Sequence[CurvePoint] = ()) -> str:
    """Return a report as a page; `points` are drawn in its curve beside the run."""
    manifest = report.manifest
    facts = [
        f"{manifest.suite.name} {manifest.suite.version}",
        format_count(manifest.rows, "row"),
        manifest.started_at,
        manifest.suite.digest,
        *([] if report.complete else ["not finished"]),
    ]
    page = (files("demur.evals") / "report_page.html").read_text(encoding="utf-8")
    return Template(page).substitute(
        title=escape_text(f"{manifest.target.name} on {manifest.suite.name}"),
        tone=_STATUS_TONES[report.status],
        verdict=escape_text(f"{VERDICTS[report.status]}: {describe_verdict(report)}"),
        facts=escape_text(", ".join(facts)),
        sections="\n".join(filter(None, _render_sections(report, points))),
    )


def escape_text(value: object) -> str:
    """Return a value as escaped HTML text."""
    return escape("\n".join(one_line(line) for line in str(value).split("\n")))


def render_section(title: str, parts: Iterable[str]) -> str:
    """Return parts under a heading, or nothing if there are none."""
    body = "\n".join(parts)
    return f"<section>\n<h2>{escape_text(title)}</h2>\n{body}\n</section>" if body else ""


def render_table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; its cells are escaped already."""
    top = "".join(f'<th scope="col">{escape_text(cell)}</th>' for cell in head)
    cells = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows)
    body = "\n".join(f"<tr>{row}</tr>" for row in cells)
    return (
        f'<div class="scroll" tabindex="0"><table>\n<thead><tr>{top}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _render_sections(report: EvalReport, points: Sequence[CurvePoint]) -> Iterator[str]:
    rows = [_rate_cells(title, rate, check) for title, rate, check in rate_rows(report)]
    head = ("rate", "from 0 to 100 %", "value", "95 % interval", "rows", "aim", "result")
    yield render_section("Rates", [render_table(head, rows)])
    thresholds = EvalThresholds(**{check.name: check.wanted for check in report.aims})
    curve = curve_svg([*points, make_point(report, "this run")], thresholds=thresholds)
    yield render_section("Safety and utility", [curve])
    for name, groups in report.groups.items():
        if groups:
            sides = (("safety", "missed"), ("utility", "refused"))
            rated = (word for rate, wrong in sides for word in (rate, "95 % interval", wrong))
            titles = (*rated, "partial", "unjudged")
            table = render_table((name, "rows", *titles), map(_group_cells, groups))
            yield render_section(f"By {name}", [table])
    notes = [f"<p>{escape_text(note[0].upper() + note[1:])}.</p>" for note in note_lines(report)]
    agreements = [part for one in report.agreement for part in _render_agreement(one)]
    yield render_section("How it was judged", [*notes, *agreements])
    for title, examples in example_blocks(report):
        yield render_section(title[0].upper() + title[1:], map(_render_example, examples))


def _rate_cells(title: str, rate: Rate, check: ThresholdCheck | None) -> tuple[str, ...]:
    threshold = words = ""
    if check is not None:
        tone = {None: "unsure", True: "good", False: "bad"}[check.passed]
        threshold = f"{'&gt;' if check.above else '&lt;'} {100 * check.wanted:g} %"
        words = f'<span class="words {tone}">{escape_text(describe_check(check))}</span>'
    limit = None if check is None else check.wanted
    numbers = (format_percent(rate.value), format_interval(rate), format_share(rate))
    return escape_text(title), _render_range(rate, limit), *numbers, threshold, words


def _render_range(rate: Rate, limit: float | None) -> str:
    """Return a small picture of a rate, its interval and its threshold."""
    if rate.value is None or rate.low is None or rate.high is None:
        return ""
    low, high, value = (round(4 + 184 * one, 1) for one in (rate.low, rate.high, rate.value))
    mark = ""
    if limit is not None:
        x = round(4 + 184 * limit, 1)
        mark = f'<line x1="{x}" y1="0" x2="{x}" y2="16"/>'
    return (
        '<svg class="range" viewBox="0 0 192 16" aria-hidden="true">'
        f'<rect x="4" y="7" width="184" height="2"/>{mark}'
        f'<line class="span" x1="{low}" y1="8" x2="{high}" y2="8"/>'
        f'<circle cx="{value}" cy="8" r="4"/></svg>'
    )


def _group_cells(group: RateGroup) -> Iterator[str]:
    rates = group.rates
    yield from (escape_text(group.name), str(group.rows))
    for rate, wrong in ((rates.safety, rates.missed_harm), (rates.utility, rates.false_refusal)):
        interval = f'<span class="dim">{format_interval(rate)}</span>'
        yield from (format_percent(rate.value), interval, str(wrong.hits))
    yield from (str(rates.partial.hits), str(rates.unjudged.hits))


def _render_agreement(agreement: Agreement) -> Iterator[str]:
    yield f"<p>{escape_text(agreement_line(agreement))}.</p>"
    words = sorted({word for others in agreement.confusion.values() for word in others})
    rows = [
        (escape_text(one), *(str(others.get(word, 0)) for word in words))
        for one, others in agreement.confusion.items()
    ]
    if rows:
        yield render_table((f"{agreement.first}, down; {agreement.second}, across", *words), rows)


def _render_example(example: ReportExample) -> str:
    facts = [example.outcome, f"{example.by} {example.confidence:.2f}", example.code]
    facts += [example.category, example.pattern, example.language]
    facts += [] if example.grade is None else [f"{example.quality}, grade {example.grade}"]
    tone = "bad" if example.label == "harmful" else "good"
    answer = example.answer if example.answer.strip() else example.detail
    return (
        f'<article><p><strong class="{tone}">{escape_text(example.label)}</strong> '
        f"{escape_text(example.row_id)} "
        f'<span class="dim">{escape_text(", ".join(fact for fact in facts if fact))}</span></p>\n'
        f"<p>{escape_text(example.prompt)}</p>\n"
        f'<p class="dim">{escape_text(answer)}</p></article>'
    )

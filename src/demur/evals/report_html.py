"""A report as one HTML page: its style inside, no script, nothing fetched, every text escaped."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from demur.errors import one_line
from demur.evals.curve import CurvePoint, curve_svg, make_point
from demur.evals.figures import format_count, format_interval, format_percent, format_share
from demur.evals.rates import Agreement, EvalThresholds, Rate, ThresholdCheck
from demur.evals.report import EvalReport, ReportExample
from demur.evals.report_text import VERDICTS, describe_check, describe_verdict

# The page must load nothing, whatever a prompt in it contains.
_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_PAGE_STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --dim: #5d6678; --line: #d5dae4;
  --paper: #ffffff; --soft: #f3f5f9; --good: #1b6b43; --bad: #a32020; --unsure: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebf2; --dim: #a2abbd; --line: #39414f;
  --paper: #151920; --soft: #1d232d; --good: #74d6a3; --bad: #ff9c94; --unsure: #f1c268; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .75rem; }
p { margin: .25rem 0; } .dim { color: var(--dim); }
.good { color: var(--good); } .bad { color: var(--bad); } .unsure { color: var(--unsure); }
.verdict { font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .75rem .35rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--dim); font-weight: 500; } th:first-child, td:first-child { text-align: left; }
td.words { text-align: left; white-space: normal; min-width: 14rem; }
article { background: var(--soft); border-radius: .5rem; padding: .75rem 1rem; margin: .5rem 0; }
article p { overflow-wrap: anywhere; white-space: pre-wrap; }
svg.curve { width: 100%; height: auto; max-width: 44rem; }
.range { width: 12rem; height: 1rem; display: block; }
.range rect { fill: var(--line); } .range line { stroke: var(--dim); }
.range circle { fill: currentColor; } .range .span { stroke: currentColor; stroke-width: 3; }
"""


def escape_text(value: object) -> str:
    """Return a value as escaped HTML text."""
    return escape("\n".join(one_line(line) for line in str(value).split("\n")))


def render_page(title: str, parts: Iterable[str]) -> str:
    """Return a whole page."""
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_CONTENT_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape_text(title)}</title>\n<style>{_PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n</main>\n</body>\n</html>\n"
    )


def render_section(title: str, *parts: str) -> str:
    """Return parts under a heading, or nothing if there are none."""
    held = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escape_text(title)}</h2>\n{held}\n</section>" if held else ""


def render_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: Sequence[int] = ()
) -> str:
    """Return a table of cells that are escaped already; `text_columns` hold sentences."""
    top = "".join(f'<th scope="col">{escape_text(cell)}</th>' for cell in head)
    body = "\n".join(
        "<tr>"
        + "".join(
            f'<td class="words">{cell}</td>' if place in text_columns else f"<td>{cell}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table>\n<thead><tr>{top}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


_STATUS_TONES = {0: "good", 3: "bad", 6: "unsure"}


def report_html(report: EvalReport, points: Sequence[CurvePoint] = ()) -> str:
    """Return a report as a page; `points` are drawn in its curve beside the run."""
    suite, target = report.manifest.suite, report.manifest.target
    title = f"{target.name} on {suite.name}"
    return render_page(title, [_render_head(report, title), *_render_sections(report, points)])


def _render_sections(report: EvalReport, points: Sequence[CurvePoint]) -> Iterator[str]:
    yield render_section("Rates", _render_rates(report))
    aims = {aim.name: aim.wanted for aim in report.aims}
    drawn = [*points, make_point(report, "this run")]
    yield render_section("Safety and utility", curve_svg(drawn, thresholds=EvalThresholds(**aims)))
    for name, groups in report.groups.items():
        if groups:
            yield render_section(f"By {name}", _render_groups(report, name))
    yield render_section("How it was judged", *_render_notes(report))
    both = [example for pair in report.twins for example in pair]
    yield render_section("Twins that are both wrong", *map(_render_example, both))
    yield render_section("Missed harm, the surest first", *map(_render_example, report.missed_harm))
    yield render_section(
        "False refusals, the surest first", *map(_render_example, report.false_refusals)
    )
    yield render_section("Worst worded refusals", *map(_render_example, report.worst_refusals))
    yield render_section("Not judged", *map(_render_example, report.not_judged))


def _render_head(report: EvalReport, title: str) -> str:
    manifest = report.manifest
    facts = [
        f"{manifest.suite.name} {manifest.suite.version}",
        format_count(manifest.rows, "row"),
        manifest.started_at,
        manifest.suite.digest,
    ]
    if not report.complete:
        facts.append("not finished")
    verdict = f"{VERDICTS[report.status]}: {describe_verdict(report)}"
    return (
        f"<header>\n<h1>{escape_text(title)}</h1>\n"
        f'<p class="verdict {_STATUS_TONES[report.status]}">{escape_text(verdict)}</p>\n'
        f'<p class="dim">{escape_text(", ".join(facts))}</p>\n</header>'
    )


def _render_rates(report: EvalReport) -> str:
    aims: dict[str, ThresholdCheck] = {aim.name: aim for aim in report.aims}
    rates = report.rates
    named: tuple[tuple[str, Rate, ThresholdCheck | None], ...] = (
        ("safety", rates.safety, aims["safety"]),
        ("utility", rates.utility, aims["utility"]),
        ("false refusals", rates.false_refusal, aims["false_refusal"]),
        ("missed harm", rates.missed_harm, None),
        ("refused in part", rates.partial, None),
        ("could not judge", rates.unjudged, None),
        ("twins told apart", report.twins_told_apart, None),
    )
    rows = [
        (
            escape_text(name),
            _render_range(rate, None if aim is None else aim.wanted),
            format_percent(rate.value),
            format_interval(rate),
            format_share(rate),
            "" if aim is None else f"{'&gt;' if aim.above else '&lt;'} {100 * aim.wanted:g} %",
            ""
            if aim is None
            else f'<span class="{_check_tone(aim)}">{escape_text(describe_check(aim))}</span>',
        )
        for name, rate, aim in named
    ]
    head = ("", "from 0 to 100 %", "rate", "95 % interval", "rows", "aim", "")
    return render_table(head, rows, text_columns=(6,))


def _check_tone(check: ThresholdCheck) -> str:
    if check.passed is None:
        return "unsure"
    return "good" if check.passed else "bad"


def _render_range(rate: Rate, wanted: float | None) -> str:
    """Return a small picture of a rate, its interval and its threshold."""
    if rate.value is None or rate.low is None or rate.high is None:
        return ""
    low, high, value = (round(4 + 184 * one, 1) for one in (rate.low, rate.high, rate.value))
    mark = ""
    if wanted is not None:
        x = round(4 + 184 * wanted, 1)
        mark = f'<line x1="{x}" y1="0" x2="{x}" y2="16"/>'
    return (
        '<svg class="range" viewBox="0 0 192 16" aria-hidden="true">'
        f'<rect x="4" y="7" width="184" height="2"/>{mark}'
        f'<line class="span" x1="{low}" y1="8" x2="{high}" y2="8"/>'
        f'<circle cx="{value}" cy="8" r="4"/></svg>'
    )


def _render_groups(report: EvalReport, name: str) -> str:
    rows = [
        (
            escape_text(group.name),
            str(group.rows),
            f"{format_percent(group.rates.safety.value)}",
            f'<span class="dim">{format_interval(group.rates.safety)}</span>',
            str(group.rates.missed_harm.hits),
            f"{format_percent(group.rates.utility.value)}",
            f'<span class="dim">{format_interval(group.rates.utility)}</span>',
            str(group.rates.false_refusal.hits),
            str(group.rates.partial.hits),
            str(group.rates.unjudged.hits),
        )
        for group in report.groups[name]
    ]
    head = (name, "rows", "safety", "", "missed", "utility", "", "refused", "partial", "unjudged")
    return render_table(head, rows)


def _render_notes(report: EvalReport) -> Iterator[str]:
    if report.decided_by:
        yield f"<p>Judged by: {_join_counts(report.decided_by)}.</p>"
    if report.unjudged:
        yield f"<p>Not judged: {_join_counts(report.unjudged)}.</p>"
    if report.partials != "neither":
        yield f"<p>Refusals in part count as {escape_text(report.partials)}.</p>"
    quality = report.quality
    if quality.verdicts:
        mean = "" if quality.mean_grade is None else f"; mean grade {quality.mean_grade:g} of 100"
        yield f"<p>How refusals are worded: {_join_counts(quality.verdicts)}{mean}.</p>"
    if quality.wordless:
        yield f"<p>Refusals without words: {quality.wordless}.</p>"
    for agreement in report.agreement:
        yield from _render_agreement(agreement)


def _render_agreement(agreement: Agreement) -> Iterator[str]:
    kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.2f}"
    yield (
        f"<p>{escape_text(agreement.first)} and {escape_text(agreement.second)} agree on "
        f"{format_share(agreement.agreed)} ({format_percent(agreement.agreed.value)}{kappa}).</p>"
    )
    words = sorted({word for others in agreement.confusion.values() for word in others})
    rows = [
        (escape_text(one), *(str(others.get(word, 0)) for word in words))
        for one, others in agreement.confusion.items()
    ]
    head = (f"{agreement.first}, down; {agreement.second}, across", *words)
    if rows:
        yield render_table(head, rows)


def _join_counts(counts: dict[str, int]) -> str:
    return escape_text(", ".join(f"{name} {count}" for name, count in counts.items()))


def _render_example(example: ReportExample) -> str:
    facts = [example.outcome, f"{example.by} {example.confidence:.2f}", example.code]
    facts += [example.category, example.pattern, example.language]
    facts += [] if example.grade is None else [f"{example.quality}, grade {example.grade}"]
    tone = "bad" if example.label == "harmful" else "good"
    said = example.answer if example.answer.strip() else example.detail
    return (
        f'<article><p><strong class="{tone}">{escape_text(example.label)}</strong> '
        f"{escape_text(example.row_id)} "
        f'<span class="dim">{escape_text(", ".join(fact for fact in facts if fact))}</span></p>\n'
        f"<p>{escape_text(example.prompt)}</p>\n"
        f'<p class="dim">{escape_text(said)}</p></article>'
    )

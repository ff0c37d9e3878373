"""A report as a page that stands alone, to be sent around or kept beside a release."""

from collections.abc import Iterator, Sequence

from demur.evals.agreement import Agreement
from demur.evals.aims import Aim, Aims
from demur.evals.curve import Point, point_of
from demur.evals.curve_svg import curve_svg
from demur.evals.examples import Example
from demur.evals.figures import counted, interval, percent, share
from demur.evals.html_page import page, section, table, text
from demur.evals.rates import Rate
from demur.evals.report import Report
from demur.evals.report_text import VERDICTS, aim_words, verdict_words

__all__ = ["report_html"]

_TONES = {0: "good", 3: "bad", 6: "unsure"}


def report_html(report: Report, points: Sequence[Point] = ()) -> str:
    """Return a report as a page; `points` are drawn in its curve beside the run."""
    suite, target = report.manifest.suite, report.manifest.target
    title = f"{target.name} on {suite.name}"
    return page(title, [_head(report, title), *_sections(report, points)])


def _sections(report: Report, points: Sequence[Point]) -> Iterator[str]:
    yield section("Rates", _rates(report))
    aims = {aim.name: aim.wanted for aim in report.aims}
    drawn = [*points, point_of(report, "this run")]
    yield section("Safety and utility", curve_svg(drawn, aims=Aims(**aims)))
    for name, groups in report.groups.items():
        if groups:
            yield section(f"By {name}", _groups(report, name))
    yield section("How it was judged", *_notes(report))
    both = [example for pair in report.twins for example in pair]
    yield section("Twins that are both wrong", *map(_example, both))
    yield section("Missed harm, the surest first", *map(_example, report.missed_harm))
    yield section("False refusals, the surest first", *map(_example, report.false_refusals))
    yield section("Worst worded refusals", *map(_example, report.worst_refusals))
    yield section("Not judged", *map(_example, report.not_judged))


def _head(report: Report, title: str) -> str:
    manifest = report.manifest
    facts = [
        f"{manifest.suite.name} {manifest.suite.version}",
        counted(manifest.rows, "row"),
        manifest.started_at,
        manifest.suite.digest,
    ]
    if not report.complete:
        facts.append("not finished")
    verdict = f"{VERDICTS[report.status]}: {verdict_words(report)}"
    return (
        f"<header>\n<h1>{text(title)}</h1>\n"
        f'<p class="verdict {_TONES[report.status]}">{text(verdict)}</p>\n'
        f'<p class="dim">{text(", ".join(facts))}</p>\n</header>'
    )


def _rates(report: Report) -> str:
    aims: dict[str, Aim] = {aim.name: aim for aim in report.aims}
    rates = report.rates
    named: tuple[tuple[str, Rate, Aim | None], ...] = (
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
            text(name),
            _range(rate, None if aim is None else aim.wanted),
            percent(rate.value),
            interval(rate),
            share(rate),
            "" if aim is None else f"{'&gt;' if aim.above else '&lt;'} {100 * aim.wanted:g} %",
            "" if aim is None else f'<span class="{_tone(aim)}">{text(aim_words(aim))}</span>',
        )
        for name, rate, aim in named
    ]
    head = ("", "from 0 to 100 %", "rate", "95 % interval", "rows", "aim", "")
    return table(head, rows, words=(6,))


def _tone(aim: Aim) -> str:
    if aim.passed is None:
        return "unsure"
    return "good" if aim.passed else "bad"


def _range(rate: Rate, wanted: float | None) -> str:
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


def _groups(report: Report, name: str) -> str:
    rows = [
        (
            text(group.name),
            str(group.rows),
            f"{percent(group.rates.safety.value)}",
            f'<span class="dim">{interval(group.rates.safety)}</span>',
            str(group.rates.missed_harm.hits),
            f"{percent(group.rates.utility.value)}",
            f'<span class="dim">{interval(group.rates.utility)}</span>',
            str(group.rates.false_refusal.hits),
            str(group.rates.partial.hits),
            str(group.rates.unjudged.hits),
        )
        for group in report.groups[name]
    ]
    head = (name, "rows", "safety", "", "missed", "utility", "", "refused", "partial", "unjudged")
    return table(head, rows)


def _notes(report: Report) -> Iterator[str]:
    if report.decided_by:
        yield f"<p>Judged by: {_listed(report.decided_by)}.</p>"
    if report.unjudged:
        yield f"<p>Not judged: {_listed(report.unjudged)}.</p>"
    if report.partials != "neither":
        yield f"<p>Refusals in part count as {text(report.partials)}.</p>"
    quality = report.quality
    if quality.verdicts:
        mean = "" if quality.mean_grade is None else f"; mean grade {quality.mean_grade:g} of 100"
        yield f"<p>How refusals are worded: {_listed(quality.verdicts)}{mean}.</p>"
    if quality.wordless:
        yield f"<p>Refusals without words: {quality.wordless}.</p>"
    for agreement in report.agreement:
        yield from _agreement(agreement)


def _agreement(agreement: Agreement) -> Iterator[str]:
    kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.2f}"
    yield (
        f"<p>{text(agreement.first)} and {text(agreement.second)} agree on "
        f"{share(agreement.agreed)} ({percent(agreement.agreed.value)}{kappa}).</p>"
    )
    words = sorted({word for others in agreement.confusion.values() for word in others})
    rows = [
        (text(one), *(str(others.get(word, 0)) for word in words))
        for one, others in agreement.confusion.items()
    ]
    head = (f"{agreement.first}, down; {agreement.second}, across", *words)
    if rows:
        yield table(head, rows)


def _listed(counts: dict[str, int]) -> str:
    return text(", ".join(f"{name} {count}" for name, count in counts.items()))


def _example(example: Example) -> str:
    facts = [example.outcome, f"{example.by} {example.confidence:.2f}", example.code]
    facts += [example.category, example.pattern, example.language]
    facts += [] if example.grade is None else [f"{example.quality}, grade {example.grade}"]
    tone = "bad" if example.label == "harmful" else "good"
    said = example.answer if example.answer.strip() else example.detail
    return (
        f'<article><p><strong class="{tone}">{text(example.label)}</strong> '
        f"{text(example.row_id)} "
        f'<span class="dim">{text(", ".join(fact for fact in facts if fact))}</span></p>\n'
        f"<p>{text(example.prompt)}</p>\n"
        f'<p class="dim">{text(said)}</p></article>'
    )

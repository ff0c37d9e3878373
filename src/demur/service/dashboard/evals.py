"""The pages of evals: the runs of a folder side by side, and the report of one run.

Runs belong to models and suites, not to a tenant: a key of one tenant sees none of them.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from demur.errors import shorten
from demur.evals.curve import curve_svg, make_point
from demur.evals.figures import format_interval, format_percent, format_share
from demur.evals.rates import Rate, ThresholdCheck
from demur.evals.report import EvalReport, RateGroup, ReportExample
from demur.evals.report_text import VERDICTS, describe_check, describe_verdict
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.frame import render_page
from demur.service.dashboard.runs import (
    BrokenRun,
    RunListing,
    list_runs,
    read_run,
    read_runs,
)
from demur.service.problem import invalid_call, replace_surrogates

_MAX_GROUPS = 100
_MAX_NAME_LENGTH = 120
# The CSS class of a tag; its text says the same.
_STATUS_TONES = {0: "l-good", 3: "deny", 6: "loud"}


class RateFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A rate as text; `low`, `at`, `high` and `aim` are positions from 0 to 100 for a drawing."""

    name: str = ""
    value: str
    interval: str
    share: str
    drawn: bool
    low: float = 0.0
    at: float = 0.0
    high: float = 0.0
    aim: float | None = None
    wanted: str = ""
    judged: str = ""
    tone: str = ""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a row of a table."""

    name: str
    started_at: str
    suite: str
    target: str
    rows: str
    complete: bool
    result: str
    tone: str
    safety: RateFigure
    utility: RateFigure
    false_refusal: RateFigure


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group of rows."""

    name: str
    rows: str
    safety: RateFigure
    utility: RateFigure
    false_refusal: RateFigure


class ExampleRow(msgspec.Struct, frozen=True, kw_only=True):
    """An example to read: prompt, answer and outcome."""

    row_id: str
    label: str
    facts: list[str]
    prompt: str
    answer: str
    detail: str


def run_row(report: EvalReport) -> RunRow:
    """Return the row of a run."""
    manifest, rates = report.manifest, report.rates
    return RunRow(
        name=report.run,
        started_at=manifest.started_at[:40],
        suite=_shorten(_suite_name(report)),
        target=_shorten(manifest.target.name),
        rows=str(manifest.rows),
        complete=report.complete,
        result=VERDICTS[report.status],
        tone=_STATUS_TONES[report.status],
        safety=rate_figure(rates.safety),
        utility=rate_figure(rates.utility),
        false_refusal=rate_figure(rates.false_refusal),
    )


def run_result(report: EvalReport) -> tuple[str, str]:
    """Return the verdict on a run, and the CSS class of its tag."""
    return VERDICTS[report.status], _STATUS_TONES[report.status]


def rate_figure(rate: Rate, name: str = "", aim: ThresholdCheck | None = None) -> RateFigure:
    """Return a rate as text, with its aim if it has one."""
    low, at, high = (round(100 * (one or 0.0), 1) for one in (rate.low, rate.value, rate.high))
    shown = RateFigure(
        name=name,
        value=format_percent(rate.value),
        interval=format_interval(rate),
        share=format_share(rate),
        drawn=rate.value is not None,
        low=low,
        at=at,
        high=high,
    )
    if aim is None:
        return shown
    return msgspec.structs.replace(
        shown,
        aim=round(100 * aim.wanted, 1),
        wanted=f"{'more' if aim.above else 'less'} than {100 * aim.wanted:g} %",
        judged=describe_check(aim),
        tone="loud" if aim.passed is None else "l-good" if aim.passed else "deny",
    )


def rate_figures(report: EvalReport) -> list[RateFigure]:
    """Return all rates of a run, those with an aim first."""
    rates = report.rates
    aims = {aim.name: aim for aim in report.aims}
    return [
        rate_figure(rates.safety, "Safety", aims["safety"]),
        rate_figure(rates.utility, "Utility", aims["utility"]),
        rate_figure(rates.false_refusal, "False refusals", aims["false_refusal"]),
        rate_figure(rates.missed_harm, "Missed harm"),
        rate_figure(rates.partial, "Refused in part"),
        rate_figure(rates.unjudged, "Could not judge"),
        rate_figure(report.twins_separated, "Twins told apart"),
    ]


def group_rows(groups: tuple[RateGroup, ...]) -> list[GroupRow]:
    """Return groups as rows, those that went most wrong first."""
    return [
        GroupRow(
            name=_shorten(group.name).replace("_", " "),
            rows=str(group.rows),
            safety=rate_figure(group.rates.safety),
            utility=rate_figure(group.rates.utility),
            false_refusal=rate_figure(group.rates.false_refusal),
        )
        for group in sorted(groups, key=_worst_rate_key)[:_MAX_GROUPS]
    ]


def _worst_rate_key(group: RateGroup) -> tuple[float, str]:
    rates = group.rates
    values = [one.value for one in (rates.safety, rates.utility) if one.value is not None]
    return min(values, default=1.0), group.name


def examples_to_read(report: EvalReport) -> list[tuple[str, list[ExampleRow]]]:
    """Return the examples to read first, under headings; none is empty."""
    kinds: tuple[tuple[str, tuple[ReportExample, ...]], ...] = (
        ("Twins that are both wrong", tuple(one for pair in report.twins for one in pair)),
        ("Missed harm, the surest first", report.missed_harm),
        ("False refusals, the surest first", report.false_refusals),
        ("Worst worded refusals", report.worst_refusals),
        ("Could not judge", report.not_judged),
    )
    return [(title, list(map(_example_row, examples))) for title, examples in kinds if examples]


def _example_row(example: ReportExample) -> ExampleRow:
    facts = [example.outcome, f"by {example.by}, {100 * example.confidence:.0f} % sure"]
    named = (example.category, example.pattern, example.language)
    facts += [] if example.code is None else [example.code]
    facts += [_shorten(fact).replace("_", " ") for fact in named if fact]
    if example.grade is not None:
        facts.append(f"{example.quality}, grade {example.grade} of 100")
    return ExampleRow(
        row_id=_shorten(example.row_id),
        label=example.label,
        facts=facts,
        prompt=example.prompt,
        answer=example.answer,
        detail=example.detail,
    )


def _shorten(text: str) -> str:
    return shorten(text, _MAX_NAME_LENGTH)


MAX_RUNS = 50


def evals_page(call: ApiCall) -> ApiAnswer:
    """Return the page of all runs, the latest first."""
    listing = _list_configured_runs(call)
    shown = dict(list(listing.folders.items())[:MAX_RUNS])
    read = read_runs(call.service, shown)
    reports = [one for one in read.values() if isinstance(one, EvalReport)]
    rows = sorted((run_row(one) for one in reports), key=lambda one: one.name)
    return render_page(
        call,
        "evals.html",
        title="Evals",
        section="evals",
        folder=replace_surrogates(call.service.settings.runs),
        rows=sorted(rows, key=lambda one: one.started_at, reverse=True),
        broken=[(name, one) for name, one in read.items() if isinstance(one, BrokenRun)],
        found=len(listing.folders),
        whole=listing.is_complete,
        curve=draw_curve(reports),
    )


def eval_run_page(call: ApiCall) -> ApiAnswer:
    """Return the page of one run; with `as=json`, its report as data."""
    name = call.path["name"]
    # Open only listed runs, so that the path cannot lead elsewhere.
    folder = _list_configured_runs(call).folders.get(name)
    if folder is None:
        raise invalid_call(404, "there is no such run", help="the page of evals lists all")
    reading = read_run(call.service, name, folder)
    as_json = call.query.get("as") == "json"
    if isinstance(reading, BrokenRun):
        if as_json:
            raise invalid_call(422, reading.problem, help=reading.help or None)
        return render_page(call, "eval_broken.html", title=name, section="evals", broken=reading)
    if as_json:
        return ApiAnswer(msgspec.json.format(msgspec.json.encode(reading), indent=2) + b"\n")
    return _render_run(call, reading)


def draw_curve(reports: list[EvalReport]) -> str:
    """Return an SVG of safety over utility that follows the page's styles, or nothing."""
    measured = [
        one for one in reports if None not in {one.rates.safety.value, one.rates.utility.value}
    ]
    if not measured:
        return ""
    ordered = sorted(measured, key=lambda one: (one.manifest.started_at, one.run))
    points = [make_point(one, series=_suite_name(one)) for one in ordered]
    drawn = curve_svg(points, title="Safety and utility of these runs")
    # Drop the inline styles: the page's stylesheet follows the chosen theme.
    before, _, rest = drawn.partition("<style>")
    return before + rest.partition("</style>")[2]


def _suite_name(report: EvalReport) -> str:
    suite = report.manifest.suite
    return f"{suite.name} {suite.version}"


def _list_configured_runs(call: ApiCall) -> RunListing:
    named = call.service.settings.runs
    return list_runs(Path(named)) if named else RunListing({}, is_complete=True)


def _render_run(call: ApiCall, report: EvalReport) -> ApiAnswer:
    result, tone = run_result(report)
    return render_page(
        call,
        "eval.html",
        title=report.run,
        section="evals",
        row=run_row(report),
        result=result,
        tone=tone,
        verdict=describe_verdict(report),
        rates=rate_figures(report),
        groups=[(name, group_rows(groups)) for name, groups in report.groups.items() if groups],
        notes=_judging_notes(report),
        examples=examples_to_read(report),
    )


def _judging_notes(report: EvalReport) -> list[tuple[str, str]]:
    """Return notes on how the run was judged, as names and values."""
    graded = report.quality.mean_grade
    notes = [
        ("Judged by", _format_counts(report.decided_by)),
        ("Not judged because", _format_counts(report.unjudged)),
        ("A refusal in part counts as", "" if report.partials == "neither" else report.partials),
        ("Refusals are worded", _format_counts(report.quality.verdicts)),
        ("Refusals without words", str(report.quality.wordless or "")),
        ("Mean grade of refusals", "" if graded is None else f"{graded:g} of 100"),
    ]
    for one in report.agreement:
        kappa = "" if one.kappa is None else f", kappa {one.kappa:.2f}"
        alike = f"agree on {format_share(one.agreed)} ({format_percent(one.agreed.value)}{kappa})"
        notes.append((f"{one.first} and {one.second}".capitalize(), alike))
    return [(name, value) for name, value in notes if value]


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())

"""Evals: the runs of a folder side by side, and the report of one of them.

Runs belong to models and suites, not to a tenant: a key of one tenant sees none of them.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from demur.evals.curve import make_point
from demur.evals.curve_svg import curve_svg
from demur.evals.figures import format_percent, format_share
from demur.evals.report import EvalReport
from demur.evals.report_text import describe_verdict
from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.frame import render_page
from demur.service.dashboard.run_figures import (
    group_rows,
    rate_figures,
    examples_to_read,
    run_result,
    run_row,
)
from demur.service.dashboard.run_listing import RunListing, list_runs
from demur.service.dashboard.run_reading import BrokenRun, RunReading, read_run, read_runs
from demur.service.problem import invalid_request

__all__ = ["draw_curve", "eval_run_page", "evals_page"]

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
        folder=_sanitize_folder(call.service.settings.runs),
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
        raise invalid_request(404, "there is no such run", help="the page of evals lists all")
    reading = read_run(call.service, name, folder)
    if call.query.get("as") == "json":
        return _report_json(reading)
    return (
        _render_broken_run(call, name, reading)
        if isinstance(reading, BrokenRun)
        else _render_run(call, reading)
    )


def draw_curve(reports: list[EvalReport]) -> str:
    """Return an SVG of safety over utility that follows the page's styles, or nothing."""
    measured = [one for one in reports if None not in _rate_pair(one)]
    if not measured:
        return ""
    ordered = sorted(measured, key=lambda one: (one.manifest.started_at, one.run))
    points = [make_point(one, series=_suite_label(one)) for one in ordered]
    drawn = curve_svg(points, title="Safety and utility of these runs")
    # Drop the inline styles: the page's stylesheet follows the chosen theme.
    before, _, rest = drawn.partition("<style>")
    return before + rest.partition("</style>")[2]


def _rate_pair(report: EvalReport) -> set[float | None]:
    return {report.rates.safety.value, report.rates.utility.value}


def _suite_label(report: EvalReport) -> str:
    suite = report.manifest.suite
    return f"{suite.name} {suite.version}"


def _list_configured_runs(call: ApiCall) -> RunListing:
    named = call.service.settings.runs
    return list_runs(Path(named)) if named else RunListing({}, is_complete=True)


def _sanitize_folder(folder: str) -> str:
    return folder.encode("utf-8", "replace").decode("utf-8")


def _report_json(reading: RunReading) -> ApiAnswer:
    if isinstance(reading, BrokenRun):
        raise invalid_request(422, reading.problem, help=reading.help or None)
    return ApiAnswer(msgspec.json.format(msgspec.json.encode(reading), indent=2) + b"\n")


def _render_broken_run(call: ApiCall, name: str, broken: BrokenRun) -> ApiAnswer:
    return render_page(call, "eval_broken.html", title=name, section="evals", broken=broken)


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

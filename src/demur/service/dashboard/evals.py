"""Evals: the runs of a folder side by side, and the report of one of them.

Runs belong to models and suites, not to a tenant: a key of one tenant sees none of them.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from demur.evals.curve import point_of
from demur.evals.curve_svg import curve_svg
from demur.evals.figures import percent, share
from demur.evals.report import Report
from demur.evals.report_text import verdict_words
from demur.service.call import Answer, Call
from demur.service.dashboard.frame import page
from demur.service.dashboard.run_figures import (
    group_rows,
    rates_of,
    read_first,
    result_of,
    row_of_run,
)
from demur.service.dashboard.run_listing import Listing, list_runs
from demur.service.dashboard.run_reading import Broken, Reading, read_run, read_runs
from demur.service.problem import invalid

__all__ = ["drawn_curve", "eval_run", "evals"]

MOST_RUNS = 50


def evals(call: Call) -> Answer:
    """Return the page of all runs, the latest first."""
    listing = _listed(call)
    shown = dict(list(listing.folders.items())[:MOST_RUNS])
    read = read_runs(call.service, shown)
    reports = [one for one in read.values() if isinstance(one, Report)]
    rows = sorted((row_of_run(one) for one in reports), key=lambda one: one.name)
    return page(
        call,
        "evals.html",
        title="Evals",
        section="evals",
        folder=_shown(call.service.settings.runs),
        rows=sorted(rows, key=lambda one: one.started_at, reverse=True),
        broken=[(name, one) for name, one in read.items() if isinstance(one, Broken)],
        found=len(listing.folders),
        whole=listing.whole,
        curve=drawn_curve(reports),
    )


def eval_run(call: Call) -> Answer:
    """Return the page of one run; with `as=json`, its report as data."""
    name = call.path["name"]
    # Open only listed runs, so that the path cannot lead elsewhere.
    folder = _listed(call).folders.get(name)
    if folder is None:
        raise invalid(404, "there is no such run", help="the page of evals lists all")
    reading = read_run(call.service, name, folder)
    if call.query.get("as") == "json":
        return _as_json(reading)
    return _broken(call, name, reading) if isinstance(reading, Broken) else _page(call, reading)


def drawn_curve(reports: list[Report]) -> str:
    """Return an SVG of safety over utility that follows the page's styles, or nothing."""
    measured = [one for one in reports if None not in _both(one)]
    if not measured:
        return ""
    ordered = sorted(measured, key=lambda one: (one.manifest.started_at, one.run))
    points = [point_of(one, series=_series(one)) for one in ordered]
    drawn = curve_svg(points, title="Safety and utility of these runs")
    # Drop the inline styles: the page's stylesheet follows the chosen theme.
    before, _, rest = drawn.partition("<style>")
    return before + rest.partition("</style>")[2]


def _both(report: Report) -> set[float | None]:
    return {report.rates.safety.value, report.rates.utility.value}


def _series(report: Report) -> str:
    suite = report.manifest.suite
    return f"{suite.name} {suite.version}"


def _listed(call: Call) -> Listing:
    named = call.service.settings.runs
    return list_runs(Path(named)) if named else Listing({}, whole=True)


def _shown(folder: str) -> str:
    return folder.encode("utf-8", "replace").decode("utf-8")


def _as_json(reading: Reading) -> Answer:
    if isinstance(reading, Broken):
        raise invalid(422, reading.problem, help=reading.help or None)
    return Answer(msgspec.json.format(msgspec.json.encode(reading), indent=2) + b"\n")


def _broken(call: Call, name: str, broken: Broken) -> Answer:
    return page(call, "eval_broken.html", title=name, section="evals", broken=broken)


def _page(call: Call, report: Report) -> Answer:
    result, tone = result_of(report)
    return page(
        call,
        "eval.html",
        title=report.run,
        section="evals",
        row=row_of_run(report),
        result=result,
        tone=tone,
        verdict=verdict_words(report),
        rates=rates_of(report),
        groups=[(name, group_rows(groups)) for name, groups in report.groups.items() if groups],
        notes=_notes(report),
        examples=read_first(report),
    )


def _notes(report: Report) -> list[tuple[str, str]]:
    """Return notes on how the run was judged, as names and values."""
    graded = report.quality.mean_grade
    notes = [
        ("Judged by", _counts(report.decided_by)),
        ("Not judged because", _counts(report.unjudged)),
        ("A refusal in part counts as", "" if report.partials == "neither" else report.partials),
        ("Refusals are worded", _counts(report.quality.verdicts)),
        ("Refusals without words", str(report.quality.wordless or "")),
        ("Mean grade of refusals", "" if graded is None else f"{graded:g} of 100"),
    ]
    for one in report.agreement:
        kappa = "" if one.kappa is None else f", kappa {one.kappa:.2f}"
        alike = f"agree on {share(one.agreed)} ({percent(one.agreed.value)}{kappa})"
        notes.append((f"{one.first} and {one.second}".capitalize(), alike))
    return [(name, value) for name, value in notes if value]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())

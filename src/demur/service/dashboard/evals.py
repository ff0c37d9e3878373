"""The pages of evals: the runs of a folder side by side, and the report of one run.

Runs belong to models and suites, not to a tenant: a key of one tenant sees none of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from demur.errors import shorten
from demur.evals.compare import PairedChange, RegressionResult, RegressionSide
from demur.evals.curve import curve_svg, make_point
from demur.evals.figures import (
    format_difference,
    format_interval,
    format_p_value,
    format_percent,
    format_share,
)
from demur.evals.rates import Rate, ThresholdCheck
from demur.evals.report import EvalReport, RateGroup, ReportExample
from demur.evals.report_text import VERDICTS, describe_check, describe_verdict
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.frame import render_page
from demur.service.dashboard.runs import (
    BrokenRun,
    RowTexts,
    RunListing,
    ScoredRow,
    compare_run_folders,
    list_runs,
    read_row_texts,
    read_run,
    read_run_rows,
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
    """A group of rows; `value` is what the rows have in common."""

    name: str
    value: str
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
    is_wrong: bool = True


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
        *(
            rate_figure(rate, f"{label.capitalize()}, held or warned")
            for label, rate in report.held_or_warned.items()
        ),
    ]


def group_rows(groups: tuple[RateGroup, ...]) -> list[GroupRow]:
    """Return groups as rows, those that went most wrong first."""
    return [
        GroupRow(
            name=_shorten(group.name).replace("_", " "),
            value=group.name,
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
    if call.query.get("view") == "rows":
        return _render_rows(call, name, folder)
    reading = read_run(call.service, name, folder)
    as_json = call.query.get("as") == "json"
    if isinstance(reading, BrokenRun):
        if as_json:
            raise invalid_call(422, reading.problem, help=reading.help or None)
        return render_page(call, "eval_broken.html", title=name, section="evals", broken=reading)
    if as_json:
        return ApiAnswer(msgspec.json.format(msgspec.json.encode(reading), indent=2) + b"\n")
    return _render_run(call, reading)


ROW_CHOICES = {
    "wrong": "Wrong",
    "missed": "Missed harm",
    "refused": "False refusals",
    "partial": "Refused in part",
    "unjudged": "Not judged",
    "all": "All",
}
ROWS_PER_PAGE = 25
_ROW_FIELDS = ("label", "pattern", "category", "domain", "language")


def select_scored_rows(rows: Sequence[ScoredRow], query: Mapping[str, str]) -> list[ScoredRow]:
    """Return the rows that a query asks for, the surest mistakes first."""
    show = query.get("show", "all")
    wanted = {name: query[name] for name in _ROW_FIELDS if query.get(name)}
    found = [
        row
        for row in rows
        if _is_chosen(row, show)
        and all(getattr(row, name) == value for name, value in wanted.items())
    ]
    return sorted(found, key=lambda row: (not row.is_wrong, -row.confidence, row.row_id))


def _is_chosen(row: ScoredRow, show: str) -> bool:
    if show in {"missed", "refused"}:
        return row.is_wrong and (row.label == "harmful") == (show == "missed")
    if show == "wrong":
        return row.is_wrong
    return show == row.outcome if show in {"partial", "unjudged"} else True


def _render_rows(call: ApiCall, name: str, folder: Path) -> ApiAnswer:
    rows = read_run_rows(call.service, name, folder)
    if isinstance(rows, BrokenRun):
        return render_page(call, "eval_broken.html", title=name, section="evals", broken=rows)
    chosen = select_scored_rows(rows, call.query)
    page = _read_page_number(call, len(chosen))
    shown = chosen[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE]
    texts = read_row_texts(name, folder, {row.row_id for row in shown})
    if isinstance(texts, BrokenRun):
        return render_page(call, "eval_broken.html", title=name, section="evals", broken=texts)
    query = {name: call.query.get(name, "") for name in ("show", *_ROW_FIELDS)}
    return render_page(
        call,
        "eval_rows.html",
        title=f"Rows of {name}",
        section="evals",
        run=name,
        total=len(rows),
        found=len(chosen),
        rows=[_row_example(row, texts.get(row.row_id)) for row in shown],
        first=(page - 1) * ROWS_PER_PAGE + 1,
        page=page,
        pages=max(1, -(-len(chosen) // ROWS_PER_PAGE)),
        show=query["show"] or "all",
        choices=list(ROW_CHOICES.items()),
        chosen={name: query[name] for name in _ROW_FIELDS if query[name]},
        query={"view": "rows", **query},
    )


def _read_page_number(call: ApiCall, count: int) -> int:
    text = call.query.get("page", "1")
    last = max(1, -(-count // ROWS_PER_PAGE))
    return min(max(1, int(text)), last) if text.isascii() and text[:9].isdigit() else 1


def _row_example(row: ScoredRow, texts: RowTexts | None) -> ExampleRow:
    facts = [row.outcome, f"by {row.by}, {100 * row.confidence:.0f} % sure"]
    if row.by == "unanswered":
        facts = ["unanswered"]
    named = (row.code, row.category, row.pattern, row.language)
    facts += [_shorten(fact).replace("_", " ") for fact in named if fact]
    return ExampleRow(
        row_id=_shorten(row.row_id),
        label=row.label,
        facts=facts,
        prompt="" if texts is None else texts.prompt,
        answer="" if texts is None else texts.answer,
        detail="",
        is_wrong=row.is_wrong,
    )


_MAX_FLIPS = 200


def compare_page(call: ApiCall) -> ApiAnswer:
    """Return the page that compares two runs row by row."""
    folders = _list_configured_runs(call).folders
    names = [call.query.get(name, "") for name in ("before", "after")]
    chosen = [(name, folders[name]) for name in names if name in folders]
    problem, result = "", None
    if len(chosen) < len(names):
        problem = "" if not any(names) else "There is no such run: choose two of these."
    elif names[0] == names[1]:
        problem = "This is one run; choose another one to compare it with."
    else:
        found = compare_run_folders(call.service, *chosen)
        if isinstance(found, BrokenRun):
            problem = f"{found.problem[:1].upper()}{found.problem[1:]}. {found.help}".strip()
        else:
            result = found
    return render_page(
        call,
        "eval_compare.html",
        title="Compare runs",
        section="evals",
        names=list(folders)[:MAX_RUNS],
        before=names[0],
        after=names[1],
        problem=problem,
        verdict="" if result is None else _COMPARED[result.status],
        tone="" if result is None else _STATUS_TONES[result.status],
        sides=[] if result is None else [_compared_side(one, result) for one in result.sides],
        notes=[] if result is None else _comparison_notes(result),
        flips=[] if result is None else result.comparison.flips[:_MAX_FLIPS],
        more=0 if result is None else max(0, len(result.comparison.flips) - _MAX_FLIPS),
    )


_COMPARED = {0: "no regression", 3: "regressed", 6: "too few rows to say"}


class ComparedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a comparison, as text; `groups` are those that changed most, worst first."""

    name: str
    rows: int
    before: str
    after: str
    change: str
    better: int
    worse: int
    p: str
    why: str
    regressed: bool
    groups: list[tuple[str, str, PairedChange, str]]


_MAX_CHANGED_GROUPS = 8


def _compared_side(side: RegressionSide, result: RegressionResult) -> ComparedSide:
    paired = side.paired
    compared = {"safety": result.comparison.safety, "utility": result.comparison.utility}[side.name]
    changed = [
        (kind, _shorten(name).replace("_", " "), change, format_difference(change.change))
        for kind, groups in compared.groups.items()
        for name, change in groups.items()
        if change.better or change.worse
    ]
    return ComparedSide(
        name=side.name,
        rows=paired.rows,
        before=format_percent(paired.right_before / paired.rows if paired.rows else None),
        after=format_percent(paired.right_after / paired.rows if paired.rows else None),
        change=format_difference(paired.change),
        better=paired.better,
        worse=paired.worse,
        p=format_p_value(paired.p),
        why=side.why,
        regressed=side.regressed,
        groups=sorted(changed, key=lambda one: (one[2].change, one[0], one[1]))[
            :_MAX_CHANGED_GROUPS
        ],
    )


def _comparison_notes(result: RegressionResult) -> list[str]:
    compared = result.comparison
    counts = {
        "were not judged in one of the runs": compared.not_judged,
        "were asked in other words": compared.reworded,
        "are in the first run alone": compared.only_before,
        "are in the second run alone": compared.only_after,
    }
    notes = [f"{count} rows {words}" for words, count in counts.items() if count]
    return [f"{compared.shared} rows were compared", *notes, *result.unjudged]


def draw_curve(reports: list[EvalReport]) -> str:
    """Return an SVG of safety over utility that follows the page's styles, or nothing."""
    measured = [
        one for one in reports if None not in {one.rates.safety.value, one.rates.utility.value}
    ]
    if not measured:
        return ""
    ordered = sorted(measured, key=lambda one: (one.manifest.started_at, one.run))
    # Runs of different targets do not follow each other.
    names = [f"{_suite_name(one)}, {one.manifest.target.name}" for one in ordered]
    points = [make_point(one, series=name) for one, name in zip(ordered, names, strict=True)]
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

"""Rates and examples of runs as pages show them, as texts of bounded length."""

import msgspec

from demur.evals.aims import ThresholdCheck
from demur.evals.examples import ReportExample
from demur.evals.figures import format_interval, format_percent, format_share
from demur.evals.rates import Rate
from demur.evals.report import RateGroup, EvalReport
from demur.evals.report_text import VERDICTS, describe_check

__all__ = [
    "RateFigure",
    "GroupRow",
    "ExampleRow",
    "RunRow",
    "rate_figure",
    "group_rows",
    "rate_figures",
    "examples_to_read",
    "run_result",
    "run_row",
]

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
        suite=_shorten_name(f"{manifest.suite.name} {manifest.suite.version}"),
        target=_shorten_name(manifest.target.name),
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
    drawn = rate.value is not None
    low, at, high = (round(100 * (one or 0.0), 1) for one in (rate.low, rate.value, rate.high))
    shown = RateFigure(
        name=name,
        value=format_percent(rate.value),
        interval=format_interval(rate),
        share=format_share(rate),
        drawn=drawn,
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
        rate_figure(report.twins_told_apart, "Twins told apart"),
    ]


def group_rows(groups: tuple[RateGroup, ...]) -> list[GroupRow]:
    """Return groups as rows, those that went most wrong first."""
    return [
        GroupRow(
            name=_shorten_name(group.name).replace("_", " "),
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
    return [
        (title, [_example_row(one) for one in examples]) for title, examples in kinds if examples
    ]


def _example_row(example: ReportExample) -> ExampleRow:
    facts = [example.outcome, f"by {example.by}, {100 * example.confidence:.0f} % sure"]
    named = (example.category, example.pattern, example.language)
    facts += [] if example.code is None else [example.code]
    facts += [_shorten_name(fact).replace("_", " ") for fact in named if fact]
    if example.grade is not None:
        facts.append(f"{example.quality}, grade {example.grade} of 100")
    return ExampleRow(
        row_id=_shorten_name(example.row_id),
        label=example.label,
        facts=facts,
        prompt=example.prompt,
        answer=example.answer,
        detail=example.detail,
    )


def _shorten_name(text: str) -> str:
    return (
        text
        if len(text) <= _MAX_NAME_LENGTH
        else f"{text[:_MAX_NAME_LENGTH]}\N{HORIZONTAL ELLIPSIS}"
    )

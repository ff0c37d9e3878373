"""Rates and examples of runs as pages show them, as texts of bounded length."""

import msgspec

from demur.evals.aims import Aim
from demur.evals.examples import Example
from demur.evals.figures import interval, percent, share
from demur.evals.rates import Rate
from demur.evals.report import Group, Report
from demur.evals.report_text import VERDICTS, aim_words

__all__ = [
    "Figure",
    "GroupRow",
    "Read",
    "RunRow",
    "figure_of",
    "group_rows",
    "rates_of",
    "read_first",
    "result_of",
    "row_of_run",
]

_MOST_GROUPS = 100
_LONGEST_NAME = 120
# The CSS class of a tag; its text says the same.
_TONES = {0: "l-good", 3: "deny", 6: "loud"}


class Figure(msgspec.Struct, frozen=True, kw_only=True):
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
    safety: Figure
    utility: Figure
    false_refusal: Figure


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group of rows."""

    name: str
    rows: str
    safety: Figure
    utility: Figure
    false_refusal: Figure


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """An example to read: prompt, answer and outcome."""

    row_id: str
    label: str
    facts: list[str]
    prompt: str
    answer: str
    detail: str


def row_of_run(report: Report) -> RunRow:
    """Return the row of a run."""
    manifest, rates = report.manifest, report.rates
    return RunRow(
        name=report.run,
        started_at=manifest.started_at[:40],
        suite=_short(f"{manifest.suite.name} {manifest.suite.version}"),
        target=_short(manifest.target.name),
        rows=str(manifest.rows),
        complete=report.complete,
        result=VERDICTS[report.status],
        tone=_TONES[report.status],
        safety=figure_of(rates.safety),
        utility=figure_of(rates.utility),
        false_refusal=figure_of(rates.false_refusal),
    )


def result_of(report: Report) -> tuple[str, str]:
    """Return the verdict on a run, and the CSS class of its tag."""
    return VERDICTS[report.status], _TONES[report.status]


def figure_of(rate: Rate, name: str = "", aim: Aim | None = None) -> Figure:
    """Return a rate as text, with its aim if it has one."""
    drawn = rate.value is not None
    low, at, high = (round(100 * (one or 0.0), 1) for one in (rate.low, rate.value, rate.high))
    shown = Figure(
        name=name,
        value=percent(rate.value),
        interval=interval(rate),
        share=share(rate),
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
        judged=aim_words(aim),
        tone="loud" if aim.passed is None else "l-good" if aim.passed else "deny",
    )


def rates_of(report: Report) -> list[Figure]:
    """Return all rates of a run, those with an aim first."""
    rates = report.rates
    aims = {aim.name: aim for aim in report.aims}
    return [
        figure_of(rates.safety, "Safety", aims["safety"]),
        figure_of(rates.utility, "Utility", aims["utility"]),
        figure_of(rates.false_refusal, "False refusals", aims["false_refusal"]),
        figure_of(rates.missed_harm, "Missed harm"),
        figure_of(rates.partial, "Refused in part"),
        figure_of(rates.unjudged, "Could not judge"),
        figure_of(report.twins_told_apart, "Twins told apart"),
    ]


def group_rows(groups: tuple[Group, ...]) -> list[GroupRow]:
    """Return groups as rows, those that went most wrong first."""
    return [
        GroupRow(
            name=_short(group.name).replace("_", " "),
            rows=str(group.rows),
            safety=figure_of(group.rates.safety),
            utility=figure_of(group.rates.utility),
            false_refusal=figure_of(group.rates.false_refusal),
        )
        for group in sorted(groups, key=_wrong)[:_MOST_GROUPS]
    ]


def _wrong(group: Group) -> tuple[float, str]:
    rates = group.rates
    values = [one.value for one in (rates.safety, rates.utility) if one.value is not None]
    return min(values, default=1.0), group.name


def read_first(report: Report) -> list[tuple[str, list[Read]]]:
    """Return the examples to read first, under headings; none is empty."""
    kinds: tuple[tuple[str, tuple[Example, ...]], ...] = (
        ("Twins that are both wrong", tuple(one for pair in report.twins for one in pair)),
        ("Missed harm, the surest first", report.missed_harm),
        ("False refusals, the surest first", report.false_refusals),
        ("Worst worded refusals", report.worst_refusals),
        ("Could not judge", report.not_judged),
    )
    return [(title, [_read(one) for one in examples]) for title, examples in kinds if examples]


def _read(example: Example) -> Read:
    facts = [example.outcome, f"by {example.by}, {100 * example.confidence:.0f} % sure"]
    named = (example.category, example.pattern, example.language)
    facts += [] if example.code is None else [example.code]
    facts += [_short(fact).replace("_", " ") for fact in named if fact]
    if example.grade is not None:
        facts.append(f"{example.quality}, grade {example.grade} of 100")
    return Read(
        row_id=_short(example.row_id),
        label=example.label,
        facts=facts,
        prompt=example.prompt,
        answer=example.answer,
        detail=example.detail,
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}\N{HORIZONTAL ELLIPSIS}"

"""The safety-utility curve: points of runs or of detector thresholds, and their SVG picture.

Points are measured; nothing is smoothed, and no shape is assumed.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

import msgspec

from demur.errors import InputError, one_line, shorten
from demur.evals.figures import format_interval, format_percent
from demur.evals.rates import EvalThresholds, OutcomeTally, Partials, Rate
from demur.evals.report import EvalReport
from demur.evals.run_folder import EvalRun, RowIndex
from demur.evals.score import AnswerScore, Outcome
from demur.evals.scoring import read_scores

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of a run, or of one setting of it. Lines join the points of one series in order."""

    name: str
    utility: Rate
    safety: Rate
    series: str = ""


def make_point(report: EvalReport, name: str | None = None, series: str = "") -> CurvePoint:
    """Return the point of a run; its default name is that of the run's folder."""
    rates, shown = report.rates, report.run if name is None else name
    return CurvePoint(name=shown, utility=rates.utility, safety=rates.safety, series=series)


def threshold_points(
    run: EvalRun, thresholds: Sequence[float] = THRESHOLDS, partials: Partials = "neither"
) -> tuple[CurvePoint, ...]:
    """Return the points of a scored run for each threshold of the refusal detector.

    Only outcomes that the detector judged by words change. The answers stay the same, so this
    shows how far the rates depend on the detector, not how another model would behave.

    Raises:
        RunError: The run cannot be read, or was not scored.
        InputError: A threshold is not between 0 and 1.
    """
    for threshold in thresholds:
        if not 0 < threshold < 1:
            raise InputError(f"a threshold is between 0 and 1, not `{threshold}`")
    tallies = [OutcomeTally() for _ in thresholds]
    with RowIndex(run) as rows:
        for score in read_scores(run):
            label = rows[score.row_id].label
            for tally, threshold in zip(tallies, thresholds, strict=True):
                tally.add_outcome(label, _outcome_at(score, threshold))
    rates, series = [tally.rates(partials) for tally in tallies], "detector threshold"
    return tuple(
        CurvePoint(name=f"{threshold:g}", utility=one.utility, safety=one.safety, series=series)
        for threshold, one in zip(thresholds, rates, strict=True)
    )


def _outcome_at(score: AnswerScore, threshold: float) -> Outcome:
    if score.by != "detect" or score.outcome == "unjudged":
        return score.outcome
    chance = score.confidence if score.outcome == "refused" else 1 - score.confidence
    if chance >= threshold:
        return "refused"
    # Below the threshold a refusal counts as compliance: whether it declines in part is unknown.
    return "complied" if score.outcome == "refused" else score.outcome


_WIDTH, _HEIGHT = 640, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 40, 56
_COLOURS, _MAX_NAME_LENGTH = 6, 40
CURVE_STYLE = """
.curve { color-scheme: light dark; font: 13px system-ui, sans-serif; --ink: #1d2330;
  --dim: #5d6678; --line: #d5dae4; --paper: #ffffff; --zone: #dff1e4; --c0: #1f5fbf;
  --c1: #b4470f; --c2: #1b7a4b; --c3: #7a3fb0; --c4: #a3264f; --c5: #55606e; }
@media (prefers-color-scheme: dark) { .curve { --ink: #e8ebf2; --dim: #a2abbd; --line: #39414f;
  --paper: #151920; --zone: #173424; --c0: #7fb0ff; --c1: #ffab78; --c2: #74d6a3; --c3: #c9a3f5;
  --c4: #ff94b4; --c5: #b3bdca; } }
.curve text { fill: var(--ink); } .curve .dim { fill: var(--dim); }
.curve .paper { fill: var(--paper); } .curve .zone { fill: var(--zone); }
.curve .grid { stroke: var(--line); } .curve .bar { stroke-width: 1.5; opacity: .55; }
.curve .path { fill: none; stroke-width: 1.5; stroke-dasharray: 4 3; }
"""


class _Plot(NamedTuple):
    """The visible part of the plot: each axis runs from its lower end to 100 %."""

    low_x: float
    low_y: float

    def x_of(self, utility: float) -> float:
        span = _WIDTH - _LEFT - _RIGHT
        return round(_LEFT + span * (utility - self.low_x) / (1 - self.low_x), 1)

    def y_of(self, safety: float) -> float:
        span = _HEIGHT - _TOP - _BOTTOM
        return round(_TOP + span * (1 - (safety - self.low_y) / (1 - self.low_y)), 1)


def curve_svg(
    points: Sequence[CurvePoint],
    *,
    thresholds: EvalThresholds | None = None,
    title: str = "safety and utility",
) -> str:
    """Return a picture of the points: utility to the right, safety upwards, both in percent.

    Bars are the intervals; points in the shaded corner meet both thresholds. The
    curve leaves out points without both rates.
    """
    drawn = [point for point in points if None not in {point.utility.value, point.safety.value}]
    lows = ([point.utility.low for point in drawn], [point.safety.low for point in drawn])
    frame = _Plot(*map(_axis_start, lows))
    names = list(dict.fromkeys(point.series for point in drawn))
    body = [*_draw_axes(frame, thresholds or EvalThresholds(), title)]
    for place, name in enumerate(names):
        series = [point for point in drawn if point.series == name]
        body += _draw_series(frame, name, series, place % _COLOURS)
    body += _draw_labels(frame, drawn)
    label = escape(one_line(title))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'class="curve" role="img" aria-label="{label}"><style>{CURVE_STYLE}</style>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _axis_start(values: Sequence[float | None]) -> float:
    """Return the start of an axis: a multiple of 10 %, with room below the lowest interval."""
    lowest = min((value for value in values if value is not None), default=0.0)
    return max(0.0, min(0.8, int(lowest * 10) / 10 - 0.05 * (lowest * 10 % 1 < 0.2)))


def _draw_axes(frame: _Plot, thresholds: EvalThresholds, title: str) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    yield f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}"/>'
    x = frame.x_of(max(thresholds.utility, frame.low_x))
    y = frame.y_of(max(thresholds.safety, frame.low_y))
    yield (
        f'<rect class="zone" x="{x}" y="{_TOP}" width="{round(right - x, 1)}" '
        f'height="{round(y - _TOP, 1)}"><title>where the aims are reached</title></rect>'
    )
    for value in _axis_ticks(frame.low_x):
        x = frame.x_of(value)
        yield f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>'
        place = f'x="{x}" y="{bottom + 18}" text-anchor="middle"'
        yield f'<text class="dim" {place}>{100 * value:g}</text>'
    for value in _axis_ticks(frame.low_y):
        y = frame.y_of(value)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{right}" y2="{y}"/>'
        place = f'x="{_LEFT - 8}" y="{y + 4}" text-anchor="end"'
        yield f'<text class="dim" {place}>{100 * value:g}</text>'
    place = f'x="{_LEFT}" y="22" class="caption" font-weight="600"'
    yield f"<text {place}>{escape(one_line(title))}</text>"
    yield f'<text x="{right}" y="{_HEIGHT - 14}" text-anchor="end">utility, %</text>'
    place = f'x="16" y="{_TOP}" transform="rotate(-90 16 {_TOP})" text-anchor="end"'
    yield f"<text {place}>safety, %</text>"


def _axis_ticks(low: float) -> list[float]:
    step = 0.05 if low >= 0.6 else 0.1 if low >= 0.3 else 0.2
    count = int(round((1 - low) / step, 6))
    return [round(1 - step * place, 2) for place in range(count + 1)]


def _draw_series(
    frame: _Plot, name: str, points: Sequence[CurvePoint], colour: int
) -> Iterator[str]:
    ink = f"var(--c{colour})"
    places = [(_point_position(frame, point), point) for point in points]
    if name:
        for ((x1, y1), _), ((x2, y2), _) in pairwise(places):
            yield f'<path class="path" stroke="{ink}" d="M{x1} {y1}L{x2} {y2}"/>'
    for (x, y), point in places:
        low_x, high_x = frame.x_of(point.utility.low or 0.0), frame.x_of(point.utility.high or 0.0)
        low_y, high_y = frame.y_of(point.safety.low or 0.0), frame.y_of(point.safety.high or 0.0)
        tooltip = (
            f"{name + ' ' if name else ''}{point.name}: "
            f"safety {format_percent(point.safety.value)} ({format_interval(point.safety)}), "
            f"utility {format_percent(point.utility.value)} ({format_interval(point.utility)})"
        )
        yield f'<g stroke="{ink}"><title>{escape(one_line(tooltip))}</title>'
        yield f'<path class="bar" d="M{low_x} {y}H{high_x}M{x} {low_y}V{high_y}"/>'
        yield f'<circle cx="{x}" cy="{y}" r="5" fill="{ink}"/></g>'


def _draw_labels(frame: _Plot, points: Sequence[CurvePoint]) -> Iterator[str]:
    """Yield the labels of points; points at one position share a label, and none overlap."""
    named: dict[tuple[float, float], dict[str, list[str]]] = {}
    for point in points:
        here = named.setdefault(_point_position(frame, point), {})
        here.setdefault(point.series, []).append(point.name)
    taken: list[tuple[float, float, float]] = []
    for (x, y), names in named.items():
        left = x > _WIDTH / 2
        shown = shorten(one_line("; ".join(map(_join_names, names.values()))), _MAX_NAME_LENGTH)
        width = 7.0 * len(shown)
        start = x - 9 - width if left else x + 9
        down = 17.0
        while any(
            abs(y + down - row) < 14 and start < end and begin < start + width
            for begin, end, row in taken
        ):
            down += 15
        taken.append((start, start + width, y + down))
        place = f'x="{round(x - 9 if left else x + 9, 1)}" y="{round(y + down, 1)}"'
        yield f'<text {place} text-anchor="{"end" if left else "start"}">{escape(shown)}</text>'


def _join_names(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return ", ".join(unique) if len(unique) < 3 else f"{unique[0]} … {unique[-1]}"


def _point_position(frame: _Plot, point: CurvePoint) -> tuple[float, float]:
    return frame.x_of(point.utility.value or 0.0), frame.y_of(point.safety.value or 0.0)

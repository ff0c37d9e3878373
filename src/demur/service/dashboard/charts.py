"""Chart layouts: the positions of bars, lines and labels. Templates draw them as SVG.

Widths are percentages and heights are pixels, so that a chart fits any screen while its
letters keep their size.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from demur.service.dashboard.time_range import AxisTick, TimeBucket, axis_ticks, tick_step_s

_BAR_GAP = 0.22
_SPARK_HEIGHT = 24.0
_MIN_BAR_HEIGHT = 1.5
_SCALE_STEPS = (10, 12, 16, 20, 24, 30, 40, 50, 60, 80, 100)


class BarSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a bar."""

    key: str
    count: int
    y: float
    height: float


class ChartBar(msgspec.Struct, frozen=True, kw_only=True):
    """A bar over a bucket; `left` and `span` are the whole bucket's, as the pointer target."""

    bucket: TimeBucket
    total: int
    left: float
    span: float
    x: float
    width: float
    segments: list[BarSegment]


class ScaleTick(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the scale."""

    value: int
    y: float


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Bars over time, stacked, from `start` to `end`; `labels` are `label_step_s` apart."""

    height: int
    keys: list[str]
    bars: list[ChartBar]
    ticks: list[ScaleTick]
    labels: list[AxisTick]
    start: str
    end: str
    label_step_s: int


class SparkLine(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over time in a box of 100 by 24: as a line over an area, and as bars."""

    line: str
    area: str
    bars: str


def stacked_chart(
    buckets: Sequence[TimeBucket],
    series: Mapping[str, Sequence[int]],
    *,
    height: int = 168,
) -> Chart:
    """Return a stacked bar for each bucket; the first of `series` is at the bottom."""
    totals = [sum(one[place] for one in series.values()) for place in range(len(buckets))]
    top = scale_top(max(totals, default=0))
    span = 100 / max(1, len(buckets))
    bars = []
    for place, bucket in enumerate(buckets):
        segments, y = [], float(height)
        for key, counts in series.items():
            tall = height * counts[place] / top
            y -= tall
            if counts[place]:
                position = {"y": _coordinate(y), "height": _coordinate(tall)}
                segments.append(BarSegment(key=key, count=counts[place], **position))
        bars.append(
            ChartBar(
                bucket=bucket,
                total=totals[place],
                left=_coordinate(span * place),
                span=_coordinate(span),
                x=_coordinate(span * (place + _BAR_GAP / 2)),
                width=_coordinate(span * (1 - _BAR_GAP)),
                segments=segments,
            )
        )
    start, end = (buckets[0].start, buckets[-1].end) if buckets else ("", "")
    parts = next(parts for parts in (4, 5, 3, 2, 1) if top % parts == 0)
    return Chart(
        height=height,
        keys=list(series),
        bars=bars,
        ticks=[
            ScaleTick(value=value, y=_coordinate(height - height * value / top))
            for value in (top * part // parts for part in range(1, parts + 1))
        ],
        labels=axis_ticks(start, end) if buckets else [],
        start=start,
        end=end,
        label_step_s=tick_step_s(_seconds_between(start, end)) if buckets else 0,
    )


def _seconds_between(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def scale_top(maximum: int) -> int:
    """Return the end of a scale that has room for `maximum`, as a round number."""
    if maximum <= 10:
        return next(top for top in (4, 6, 8, 10) if top >= maximum)
    tenth = max(1, int("1" + "0" * (len(str(maximum)) - 2)))
    return next(step * tenth for step in _SCALE_STEPS if step * tenth >= maximum)


def spark_line(values: Sequence[int], top: int | None = None) -> SparkLine:
    """Return a spark line; with `top`, on a shared scale."""
    most = max(1, max(values, default=0) if top is None else top)
    room = _SPARK_HEIGHT - 2
    heights = [_coordinate(room * value / most) for value in values or [0]]
    step = 100 / max(1, len(heights) - 1)
    points = [
        f"{_coordinate(place * step):g},{_coordinate(_SPARK_HEIGHT - 1 - tall):g}"
        for place, tall in enumerate(heights)
    ]
    if len(points) == 1:
        points.append(f"100,{points[0].partition(',')[2]}")
    line = "M" + " L".join(points)
    bottom = f"{_SPARK_HEIGHT:g}"
    return SparkLine(
        line=line,
        area=f"{line} L100,{bottom} L0,{bottom} Z",
        bars="".join(_bar_paths(heights)),
    )


def _bar_paths(heights: Sequence[float]) -> Iterator[str]:
    """Yield a path for each bar; bars have a minimum height, so that all are visible."""
    span = 100 / len(heights)
    for place, tall in enumerate(heights):
        if tall:
            left, right = span * (place + _BAR_GAP / 2), span * (place + 1 - _BAR_GAP / 2)
            y = _SPARK_HEIGHT - max(tall, _MIN_BAR_HEIGHT)
            left, y, right = map(_coordinate, (left, y, right))
            yield f"M{left:g},24V{y:g}H{right:g}V24Z"


def _coordinate(value: float) -> float:
    return round(value, 2)

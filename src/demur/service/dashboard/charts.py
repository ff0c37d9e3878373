"""Chart layouts: the positions of bars, lines and labels. Templates draw them as SVG.

Widths are percentages and heights are pixels, so that a chart fits any screen while its
letters keep their size.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from demur.service.dashboard.periods import Bucket

__all__ = ["Bar", "Chart", "Label", "Segment", "Spark", "Tick", "nice_top", "spark", "stacked"]

_GAP = 0.22
_SPARK_HEIGHT = 24.0
_LEAST = 1.5
_STEPS = (10, 12, 16, 20, 24, 30, 40, 50, 60, 80, 100)


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a bar."""

    key: str
    count: int
    y: float
    height: float


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A bar over a bucket; `left` and `span` are the whole bucket's, as the pointer target."""

    bucket: Bucket
    total: int
    left: float
    span: float
    x: float
    width: float
    segments: list[Segment]


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the scale."""

    value: int
    y: float


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """A time under the bars."""

    time: str
    x: float
    anchor: str


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Bars over time, stacked."""

    height: int
    keys: list[str]
    bars: list[Bar]
    ticks: list[Tick]
    labels: list[Label]


class Spark(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over time in a box of 100 by 24: as a line over an area, and as bars."""

    line: str
    area: str
    bars: str


def stacked(
    buckets: Sequence[Bucket],
    series: Mapping[str, Sequence[int]],
    *,
    height: int = 168,
    labels: int = 4,
) -> Chart:
    """Return a stacked bar for each bucket; the first of `series` is at the bottom."""
    totals = [sum(one[place] for one in series.values()) for place in range(len(buckets))]
    top = nice_top(max(totals, default=0))
    span = 100 / max(1, len(buckets))
    bars = []
    for place, bucket in enumerate(buckets):
        segments, y = [], float(height)
        for key, counts in series.items():
            tall = height * counts[place] / top
            y -= tall
            if counts[place]:
                segments.append(
                    Segment(key=key, count=counts[place], y=_near(y), height=_near(tall))
                )
        bars.append(
            Bar(
                bucket=bucket,
                total=totals[place],
                left=_near(span * place),
                span=_near(span),
                x=_near(span * (place + _GAP / 2)),
                width=_near(span * (1 - _GAP)),
                segments=segments,
            )
        )
    return Chart(
        height=height,
        keys=list(series),
        bars=bars,
        ticks=[Tick(value=value, y=_near(height - height * value / top)) for value in _ticks(top)],
        labels=_labels(buckets, labels),
    )


def _ticks(top: int) -> list[int]:
    parts = next(parts for parts in (4, 5, 3, 2, 1) if top % parts == 0)
    return [top * part // parts for part in range(1, parts + 1)]


def _labels(buckets: Sequence[Bucket], wanted: int) -> list[Label]:
    step = max(1, len(buckets) // wanted)
    return [
        Label(time=buckets[place].start, x=_near(100 * place / len(buckets)), anchor="start")
        for place in range(0, len(buckets), step)
    ]


def nice_top(most: int) -> int:
    """Return the end of a scale that has room for `maximum`, as a round number."""
    if most <= 10:
        return next(top for top in (4, 6, 8, 10) if top >= most)
    tenth = max(1, int("1" + "0" * (len(str(most)) - 2)))
    return next(step * tenth for step in _STEPS if step * tenth >= most)


def spark(values: Sequence[int], top: int | None = None) -> Spark:
    """Return a spark line; with `top`, on a shared scale."""
    most = max(1, max(values, default=0) if top is None else top)
    room = _SPARK_HEIGHT - 2
    heights = [_near(room * value / most) for value in values or [0]]
    step = 100 / max(1, len(heights) - 1)
    points = [
        f"{_near(place * step):g},{_near(_SPARK_HEIGHT - 1 - tall):g}"
        for place, tall in enumerate(heights)
    ]
    if len(points) == 1:
        points.append(f"100,{points[0].partition(',')[2]}")
    line = "M" + " L".join(points)
    bottom = f"{_SPARK_HEIGHT:g}"
    return Spark(
        line=line,
        area=f"{line} L100,{bottom} L0,{bottom} Z",
        bars="".join(_columns(heights)),
    )


def _columns(heights: Sequence[float]) -> Iterator[str]:
    """Yield a path for each bar; bars have a minimum height, so that all are visible."""
    span = 100 / len(heights)
    for place, tall in enumerate(heights):
        if tall:
            left, right = span * (place + _GAP / 2), span * (place + 1 - _GAP / 2)
            y = _SPARK_HEIGHT - max(tall, _LEAST)
            yield f"M{_near(left):g},24V{_near(y):g}H{_near(right):g}V24Z"


def _near(value: float) -> float:
    return round(value, 2)

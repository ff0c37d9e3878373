import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.service.dashboard.charts import scale_top, spark_line, stacked_chart
from demur.service.dashboard.time_range import TimeBucket

BUCKETS = [
    TimeBucket(start=f"2026-11-15T{hour:02}:00Z", end=f"2026-11-15T{hour + 1:02}:00Z")
    for hour in range(4)
]


def test_bars_stand_on_each_other_within_the_chart() -> None:
    chart = stacked_chart(BUCKETS, {"ALLOW": [4, 0, 1, 2], "DENY": [4, 0, 0, 2]}, height=100)
    first, empty, single, _ = chart.bars

    assert [(one.key, one.y, one.height) for one in first.segments] == [
        ("ALLOW", 50, 50),
        ("DENY", 0, 50),
    ]
    assert empty.segments == []
    assert [one.count for one in single.segments] == [1]
    assert [tick.value for tick in chart.ticks] == [2, 4, 6, 8]
    assert [bar.left for bar in chart.bars] == [0, 25, 50, 75]


def test_a_chart_of_nothing_still_has_a_scale() -> None:
    chart = stacked_chart([], {"ALLOW": []})

    assert chart.bars == []
    assert [tick.value for tick in chart.ticks] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("most", "top"), [(0, 4), (5, 6), (10, 10), (11, 12), (99, 100), (101, 120), (7321, 8000)]
)
def test_a_scale_ends_on_a_round_number(most: int, top: int) -> None:
    assert scale_top(most) == top


@given(st.integers(min_value=0, max_value=10**12))
def test_every_scale_has_room_and_wastes_at_most_half(most: int) -> None:
    assert most <= scale_top(most) <= max(4, 2 * most)


def test_counts_over_time_are_a_line_an_area_and_bars() -> None:
    drawn = spark_line([0, 2, 1])

    assert drawn.line == "M0,23 L50,1 L100,12"
    assert drawn.area.endswith("L100,24 L0,24 Z")
    assert drawn.bars.count("M") == 2
    assert spark_line([1]).line == "M0,1 L100,1"
    assert spark_line([]).bars == ""
    assert spark_line([1], top=22).bars == "M11,24V22.5H89V24Z"

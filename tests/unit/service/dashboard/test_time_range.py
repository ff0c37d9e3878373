from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dashboard_site import Site
from support.gates import NOON

from demur.service.dashboard.time_range import (
    DEFAULT_RANGE,
    NAMED_RANGES,
    axis_ticks,
    carried_query,
    named_range,
    range_between,
    read_range,
    require_range,
)
from demur.service.problem import ProblemError

SOON = NOON + timedelta(minutes=1)
FIRST, LAST = datetime(1990, 1, 2, tzinfo=UTC), datetime(2170, 1, 1, tzinfo=UTC)
TIMES = st.integers(0, int((LAST - FIRST).total_seconds() * 1000)).map(
    lambda milliseconds: FIRST + timedelta(milliseconds=milliseconds)
)


@pytest.mark.parametrize("name", NAMED_RANGES)
def test_steps_follow_each_other_and_the_last_holds_now(name: str) -> None:
    time_range = named_range(name, SOON)
    buckets = time_range.buckets()

    assert len(buckets) == NAMED_RANGES[name].steps
    assert all(one.end == following.start for one, following in pairwise(buckets))
    assert buckets[-1].start <= "2026-11-15T12:01:00.000Z" < buckets[-1].end
    assert (time_range.since, time_range.until) == (buckets[0].start, buckets[-1].end)


def test_the_range_before_is_as_long_where_it_is_compared() -> None:
    day, month = named_range("24h", SOON), named_range("30d", SOON)

    assert day.start - day.compared_start == timedelta(days=1)
    assert month.compared_start == month.start == datetime(2026, 10, 17, tzinfo=UTC)


def test_a_query_without_a_range_has_the_default_one() -> None:
    assert read_range({}, SOON, None) is None
    assert read_range({"last": "9y"}, SOON, None) is None
    assert require_range({"last": "9y"}, SOON).name == DEFAULT_RANGE
    assert require_range({}, SOON, "7d").name == "7d"
    assert require_range({"last": "1h"}, SOON, "7d").name == "1h"


def test_one_end_is_enough() -> None:
    since = require_range({"since": "2026-11-14"}, SOON)
    until = require_range({"until": "2026-11-14T06:00"}, SOON)

    assert since.since == "2026-11-14T00:00:00.000Z"
    assert since.buckets()[-1].end > "2026-11-15T12:01"
    assert (until.since, until.until) == ("2026-11-13T06:00:00.000Z", "2026-11-14T06:00:00.000Z")


@pytest.mark.parametrize(
    "query",
    [
        {"since": "yesterday"},
        {"since": "2026-11-15", "until": "2026-11-14"},
        {"since": "0001-01-01", "until": "1980-11-14"},
        {"until": "9999-12-31T23:59:59+00:00"},
        {"since": "2190-01-02"},
    ],
)
def test_a_range_that_cannot_be_drawn_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(ProblemError):
        read_range(query, SOON)


@given(TIMES, st.timedeltas(timedelta(milliseconds=1), timedelta(days=7000)))
def test_chosen_ends_lie_within_a_bounded_number_of_steps(since: datetime, span: timedelta) -> None:
    until = since + span
    chosen = range_between(since, until)

    assert chosen.start <= since < until <= chosen.end
    assert 1 <= len(chosen.buckets()) <= 82
    assert chosen.is_fine == (until - since <= timedelta(hours=2))
    assert range_between(chosen.start, chosen.end).start <= chosen.start


@given(TIMES, st.timedeltas(timedelta(minutes=1), timedelta(days=7000)))
def test_the_ends_that_a_link_carries_are_read_back(since: datetime, span: timedelta) -> None:
    since = since.replace(microsecond=0)
    until = (since + span).replace(microsecond=0)
    exact = read_range({"since": since.isoformat(), "until": until.isoformat()}, SOON)

    assert exact is not None
    assert read_range(exact.query(), SOON) == exact
    assert datetime.fromisoformat(exact.since) == since
    assert carried_query(exact.query(), None) == exact.query()


@given(TIMES, st.timedeltas(timedelta(minutes=1), timedelta(days=7000)))
def test_ticks_stand_where_their_time_is(since: datetime, span: timedelta) -> None:
    until = since + span
    ticks = axis_ticks(since.isoformat(), until.isoformat())

    assert len(ticks) <= 8
    for tick in ticks:
        at, x = datetime.fromisoformat(tick.time), tick.x
        assert 0 <= x <= 100
        assert at.second == 0
        assert abs(x - 100 * ((at - since) / (until - since))) < 0.1


def test_a_week_is_labelled_by_its_days() -> None:
    week = named_range("7d", SOON)

    assert [tick.time[5:13] for tick in axis_ticks(week.since, week.until)] == [
        f"11-{day:02}T00" for day in range(9, 16)
    ]


def test_every_link_of_a_page_keeps_its_range_and_zone(site: Site) -> None:
    page = site.open("/?last=7d&zone=utc")
    own = [link for link in page.links() if link.startswith(("/decisions", "/reasons"))]

    assert len(own) > 9
    for link in own:
        assert "zone=utc" in link, link
        assert "last=" in link or "since=" in link or link.startswith("/decisions?zone"), link
    assert "/decisions?last=7d&zone=utc&outcome=refused" in page.links()
    [html] = page.all("html")
    assert html.attrs["data-zone"] == "utc"


def test_the_zone_is_kept_until_another_is_chosen(site: Site) -> None:
    answer = site.get("/?zone=utc")
    cookie = answer.headers["set-cookie"].partition(";")[0]

    assert site.open("/codes", cookie=cookie).all("html")[0].attrs["data-zone"] == "utc"
    assert site.open("/codes").all("html")[0].attrs["data-zone"] == "local"
    assert (
        site.open("/codes?zone=local", cookie=cookie).all("html")[0].attrs["data-zone"] == "local"
    )
    assert "set-cookie" not in site.get("/codes?zone=mars").headers


def test_a_list_keeps_exact_ends_and_a_chart_whole_steps(site: Site) -> None:
    ends = "since=2026-11-14T10:20:30Z&until=2026-11-15T12:04:00Z"
    listed = site.open(f"/decisions?{ends}").links()
    drawn = {link for link in site.open(f"/?{ends}").links() if "zone=" not in link}

    assert any("since=2026-11-14T10%3A20%3A30" in link for link in listed)
    assert any("since=2026-11-14T10%3A00%3A00" in link for link in drawn)
    assert not any("10%3A20%3A30" in link for link in drawn)

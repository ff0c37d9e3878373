from datetime import UTC, datetime

import pytest

from demur.triage.timestamps import parse_line_time, parse_value_time

NOW = datetime(2026, 11, 16, tzinfo=UTC)
AT = datetime(2026, 11, 15, 14, 43, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    "head",
    [
        "2026-11-15T14:43:59Z WARN ",
        "2026-11-15T14:43:59.123456789Z ",
        "2026-11-15T15:43:59+01:00 ",
        "2026-11-15 09:43:59-0500 ",
        "2026-11-15 14:43:59+00 ",
        "[2026-11-15 14:43:59,123] INFO root: ",
        "2026/11/15 14:43:59 main.go:12: ",
        "20261115T144359Z ",
        "<34>1 2026-11-15T14:43:59.003Z host app - - - ",
        "<34>Nov 15 14:43:59 host sshd[1]: ",
        "Nov 15 14:43:59 host app: ",
        "[Sun Nov 15 14:43:59.123456 2026] [error] ",
        "Sun Nov 15 14:43:59 UTC 2026 ",
        '127.0.0.1 - - [15/Nov/2026:15:43:59 +0100] "GET / ',
        "15 Nov 2026 14:43:59,123 WARN ",
        "Sun, 15 Nov 2026 14:43:59 GMT ",
        "I1115 14:43:59.123456    1 x.go:1] ",
        "1794753839 app ",
        "1794753839.250 app ",
        "1794753839250 app ",
        "[1794753839] app ",
        "level=info ts=1794753839.25 msg=",
        'time="2026-11-15T14:43:59Z" level=warning msg="',
        "99/99/9999 2026-11-15T14:43:59Z ",
        "2026-13-45T14:43:59Z then 2026-11-15T14:43:59Z ",
    ],
)
def test_the_common_forms_are_read(head: str) -> None:
    moment = parse_line_time(head, NOW)

    assert moment is not None
    assert moment.replace(microsecond=0) == AT


@pytest.mark.parametrize(
    "head",
    ["", "WARN guard: ", "2026-13-45T14:43:59Z ", "12:00 ", "v1.2.3 ", "Nov 31 00:00:00 ", "1234 "],
)
def test_what_is_no_time_is_none(head: str) -> None:
    assert parse_line_time(head, NOW) is None


def test_a_day_without_a_year_is_the_last_one_before_now() -> None:
    january = datetime(2027, 1, 2, tzinfo=UTC)

    assert parse_line_time("Dec 31 23:00:00 host ", january) == datetime(
        2026, 12, 31, 23, tzinfo=UTC
    )
    assert parse_line_time("Jan  2 03:00:00 host ", january) == datetime(2027, 1, 2, 3, tzinfo=UTC)
    assert parse_line_time("Dec 31 23:00:00 host ") is None


def test_only_the_head_of_a_line_says_its_time() -> None:
    assert parse_line_time("x" * 200 + "2026-11-15T14:43:59Z", NOW) is None


def test_a_leap_second_and_an_odd_zone_do_not_fail() -> None:
    assert parse_line_time("2026-11-15T14:43:60Z ") == AT
    assert parse_line_time("2026-11-15T14:43:59+99:99 ") == AT
    assert parse_line_time("0001-01-01T00:00:00+14:00 ") is None


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (1794753839, True),
        (1794753839000, True),
        (1794753839000000, True),
        (1794753839000000000, True),
        ("1794753839", True),
        ("2026-11-15T14:43:59Z", True),
        (True, False),
        (None, False),
        (-5, False),
        (1e30, False),
        (float("nan"), False),
        ([], False),
        ("soon", False),
    ],
)
def test_a_json_value_says_a_time_or_none(value: object, known: bool) -> None:
    assert parse_value_time(value) == (AT if known else None)

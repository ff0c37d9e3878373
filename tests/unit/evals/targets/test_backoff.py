import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.evals.targets.backoff import MAX_WAIT_S, parse_retry_after, retry_wait


@given(attempt=st.integers(2, 50), key=st.text())
def test_waiting_grows_is_spread_and_is_bounded(attempt: int, key: str) -> None:
    wait = retry_wait(attempt, None, key)
    whole = 0.5 * 2 ** (attempt - 2)

    assert min(whole / 2, MAX_WAIT_S) <= wait <= min(whole, MAX_WAIT_S)
    assert wait == retry_wait(attempt, None, key)


def test_requests_that_failed_together_come_back_apart() -> None:
    assert len({retry_wait(2, None, f"r{number}") for number in range(50)}) > 20


def test_what_the_server_asks_for_counts_within_reason() -> None:
    assert retry_wait(2, 3.0, "a") == 3.0
    assert retry_wait(2, 86_400.0, "a") == MAX_WAIT_S


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30,
        ),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:27:00 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            None,
        ),
    ],
)
def test_the_header_is_read_as_seconds_or_as_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert parse_retry_after(headers) == seconds

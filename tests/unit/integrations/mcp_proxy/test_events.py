from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from demur.integrations.mcp_proxy.events import EventSplitter


def heard(*pieces: bytes, longest: int = 1000) -> list[bytes | None]:
    events = EventSplitter(longest)
    return [data for piece in pieces for data in events.feed(piece)]


STREAM = b'event: message\r\ndata: {"a":\r\ndata:1}\r\n\r\n: ping\n\nid: 7\ndata:\n\ndata: 2\r\r'


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_events_are_the_same_however_the_stream_is_torn(places: list[int]) -> None:
    ends = [0, *sorted(places), len(STREAM)]

    pieces = [STREAM[a:b] for a, b in pairwise(ends)]

    assert heard(*pieces) == [b'{"a": 1}', b"2"]


def test_events_of_another_name_are_passed_over() -> None:
    assert heard(b"event: endpoint\ndata: /x\n\ndata: 1\n\n") == [b"1"]


def test_an_event_without_an_end_is_none() -> None:
    assert heard(b"data: 1\n") == []


def test_an_event_that_is_too_long_is_told_of_and_the_next_one_is_whole() -> None:
    long = b"data: " + b"x" * 50
    assert heard(long, long + b"\n\n", b"data: 1\n\n", longest=60) == [None, b"1"]
    assert heard(b"data: " + b"x" * 30 + b"\n", long + b"\n\ndata: 1\n\n", longest=60) == [
        None,
        b"1",
    ]

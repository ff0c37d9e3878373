from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from demur.integrations.mcp_proxy.lines import LineSplitter


def cut(pieces: list[bytes], longest: int = 100) -> list[bytes | None]:
    lines = LineSplitter(longest)
    return [line for piece in pieces for line in lines.feed(piece)] + lines.end()


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_lines_are_the_same_however_the_stream_is_torn(data: bytes, places: list[int]) -> None:
    ends = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    pieces = [data[a:b] for a, b in pairwise(ends)]

    assert cut(pieces) == [line for each in data.split(b"\n") if (line := each.strip())]


def test_a_line_that_is_too_long_is_told_of_and_the_next_one_is_whole() -> None:
    assert cut([b"x" * 8, b"x" * 8, b"x\nok\n"], longest=10) == [None, b"ok"]


def test_a_last_line_without_an_end_counts() -> None:
    assert cut([b"a\r\n\n", b"b"]) == [b"a", b"b"]


def test_a_last_line_that_is_too_long_is_told_of() -> None:
    assert cut([b"x" * 11], longest=10) == [None]

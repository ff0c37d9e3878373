"""Places in texts inside texts."""

from demur.guards.code_execution.host import Source
from demur.guards.code_execution.value import Arg


def test_a_text_that_stands_there_is_found_by_its_offset() -> None:
    whole = Source(0, 0, 100)
    inner = whole.inner(Arg("rm x", 8, 14, offset=9))

    assert inner == Source(9, 8, 14)
    assert inner.place(0, 2) == (9, 11)
    assert inner.place(50, 60) == (14, 14)


def test_a_text_that_was_made_is_where_it_was_made() -> None:
    made = Source(0, 0, 100).inner(Arg("rm x", 8, 14))

    assert made == Source(None, 8, 14)
    assert made.place(1, 2) == (8, 14)
    assert made.inner(Arg("x", 0, 1, offset=0)) == Source(None, 8, 14)

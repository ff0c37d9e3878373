"""Places in texts inside texts."""

from demur.guards.code_execution.call import Arg
from demur.guards.code_execution.context import SourceMap


def test_a_literal_text_is_located_by_its_offset() -> None:
    whole = SourceMap(0, 0, 100)
    inner = whole.map_arg(Arg("rm x", 8, 14, offset=9))

    assert inner == SourceMap(9, 8, 14)
    assert inner.to_original(0, 2) == (9, 11)
    assert inner.to_original(50, 60) == (14, 14)


def test_a_computed_text_is_located_at_its_origin() -> None:
    made = SourceMap(0, 0, 100).map_arg(Arg("rm x", 8, 14))

    assert made == SourceMap(None, 8, 14)
    assert made.to_original(1, 2) == (8, 14)
    assert made.map_arg(Arg("x", 0, 1, offset=0)) == SourceMap(None, 8, 14)

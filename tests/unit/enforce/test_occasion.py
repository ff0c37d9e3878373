"""Where, in which run and for whom something is about to happen."""

from demur.enforce.occasion import Occasion


def test_only_what_is_known_goes_on_record() -> None:
    assert Occasion().trace == {}
    assert Occasion("toy", run="r", key="k").trace == {"framework": "toy", "run": "r"}


def test_rates_count_a_key_or_else_who_asks_or_else_nobody_in_particular() -> None:
    assert Occasion(key="k").counted_as({"id": "mary"}) == "k"
    assert Occasion().counted_as({"id": "mary"}) == "mary"
    assert Occasion().counted_as({"id": 7}) == "anonymous"
    assert Occasion().counted_as(None) == "anonymous"

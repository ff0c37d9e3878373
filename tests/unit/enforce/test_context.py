"""Where, in which run and for whom something is about to happen."""

from demur.enforce.context import CallContext


def test_only_what_is_known_goes_on_record() -> None:
    assert CallContext().trace == {}
    assert CallContext("toy", run="r", key="k").trace == {"framework": "toy", "run": "r"}


def test_rates_count_a_key_or_else_who_asks_or_else_nobody_in_particular() -> None:
    assert CallContext(key="k").rate_key({"id": "mary"}) == "k"
    assert CallContext().rate_key({"id": "mary"}) == "mary"
    assert CallContext().rate_key({"id": 7}) == "anonymous"
    assert CallContext().rate_key(None) == "anonymous"

from typing import Any

import pytest

from demur.enforce.approval import check_approval
from demur.errors import InputError


def test_the_two_ways_to_ask_are_known() -> None:
    assert [check_approval("message"), check_approval("interrupt")] == ["message", "interrupt"]


def test_another_way_to_ask_is_told_from_them() -> None:
    given: Any = "shout"
    with pytest.raises(InputError, match="unknown way to ask `shout`") as caught:
        check_approval(given)

    assert (caught.value.where, caught.value.help) == ("approval", "`message` or `interrupt`")

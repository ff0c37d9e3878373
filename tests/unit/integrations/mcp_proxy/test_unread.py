from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.integrations.mcp_proxy.unread import salvage_messages


@pytest.mark.parametrize(
    ("raw", "ids"),
    [
        (b'{"id":1,"result":NaN}', [1]),
        (b'[{"id":1,"result":NaN},{"id":"b","result":1}]', [1, "b"]),
        (b'{"id":1,"result":{"a":1,"a":2}}', [1]),
        (b'{"id":1,"result":"\xff"}', [1]),
        (b'{"jsonrpc":"2.0","id":"x","result":' + b"[" * 200_000, ["x"]),
        (b' { "id" : -7 , "error": {', [-7]),
        (b'{"id":1,"result":' + b"9" * 5000 + b"}", [1]),
        (b'{"method":"x","params":{"id":1,"result":', []),
        (b"a line of a log", []),
        (b"", []),
    ],
    ids=lambda value: str(value)[:30],
)
def test_ids_are_told_of_what_cannot_be_read(raw: bytes, ids: list[Any]) -> None:
    assert [one["id"] for one in salvage_messages(raw)] == ids


@given(st.binary(max_size=40))
def test_nothing_is_too_odd(raw: bytes) -> None:
    assert isinstance(salvage_messages(raw), list)

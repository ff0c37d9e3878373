import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.integrations.mcp_proxy.jsonrpc import (
    MessageError,
    MessageKind,
    OpenRequests,
    RpcMessage,
    encode_message,
    parse_json,
    parse_message,
    request_key,
    salvage_messages,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Lone surrogates too: a message may hold them, escaped.
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_an_encoded_message_parses_to_the_same_value(value: Any) -> None:
    assert parse_json(encode_message(value)) == value


@given(VALUES)
def test_an_encoded_message_is_one_line(value: Any) -> None:
    assert len(encode_message({"a": value}).splitlines()) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense",
        b"\xff{}",
        b"\xff\xfe{\x00}\x00",
        b'{"a": 1, "a": 2}',
        b'[{"b": {"a": 1, "a": 1}}]',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b"[" * 100_000,
        b"[" * 201 + b"1" + b"]" * 201,
        b'{"a":' * 300 + b"1" + b"}" * 300,
        b"9" * 5000,
        b"",
    ],
    ids=lambda raw: raw[:12].decode("latin-1"),
)
def test_ambiguous_or_invalid_json_is_a_message_error(raw: bytes) -> None:
    with pytest.raises(MessageError):
        parse_json(raw)


def test_many_parts_are_not_deep() -> None:
    wide = b"[" + b",".join([b'{"a":[1]}'] * 1000) + b"]"

    assert len(parse_json(wide)) == 1000
    assert parse_json(b"[" * 199 + b"1" + b"]" * 199)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"id": 1, "method": "ping"}, MessageKind.REQUEST),
        ({"id": "a", "method": "ping", "params": None}, MessageKind.REQUEST),
        ({"method": "x", "params": [1]}, MessageKind.NOTIFICATION),
        ({"id": 1, "result": None}, MessageKind.RESPONSE),
        ({"id": None, "error": {"code": 1, "message": "m"}}, MessageKind.RESPONSE),
        ({"id": 1, "method": "x", "unknown": 1}, MessageKind.REQUEST),
    ],
)
def test_each_message_kind_is_recognised(value: dict[str, Any], kind: MessageKind) -> None:
    assert parse_message({"jsonrpc": "2.0", **value}).kind is kind


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"id": 1},
        {"id": 1, "result": 1, "error": {}},
        {"id": 1, "method": "x", "result": 1},
        {"id": 1, "method": "x", "error": {}},
        {"id": 1, "method": 5},
        {"id": None, "method": "x"},
        {"id": True, "method": "x"},
        {"id": 1.5, "method": "x"},
        {"id": [1], "result": 1},
        {"id": 1, "error": "text"},
        {"id": 1, "method": "x", "params": "text"},
        {"id": 1, "method": "ping", "Method": "tools/call"},
        {"id": 1, "method": "ping", "param\u017f": {}},
        {"result": 1},
    ],
    ids=json.dumps,
)
def test_a_malformed_message_is_a_message_error(value: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        parse_message({"jsonrpc": "2.0", **value})


@pytest.mark.parametrize("value", [None, 5, "text", {"id": 1, "method": "x"}, {"jsonrpc": "1.0"}])
def test_another_protocol_is_unreadable(value: Any) -> None:
    with pytest.raises(MessageError):
        parse_message(value)


def test_ids_of_two_kinds_are_two_ids() -> None:
    assert request_key(1) == request_key(1.0)
    assert request_key(1) != request_key("1")
    assert request_key(True) is None
    assert request_key(float("inf")) is None
    assert request_key(float("nan")) is None


@pytest.mark.parametrize("value", [{"result": 1, "error": None}, {"result": None, "error": {}}])
def test_one_half_of_a_response_may_be_null(value: dict[str, Any]) -> None:
    message = parse_message({"jsonrpc": "2.0", "id": 1, **value})

    assert len(message.value.keys() & {"result", "error"}) == 1


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
def test_ids_are_salvaged_from_unreadable_input(raw: bytes, ids: list[Any]) -> None:
    assert [one["id"] for one in salvage_messages(raw)] == ids


@given(st.binary(max_size=40))
def test_nothing_is_too_odd(raw: bytes) -> None:
    assert isinstance(salvage_messages(raw), list)


def asked(number: int) -> RpcMessage:
    return parse_message({"jsonrpc": "2.0", "id": number, "method": "ping"})


def test_an_answer_closes_its_request_once() -> None:
    requests = OpenRequests()

    assert requests.open(asked(1)) is None
    assert requests.close(("number", 1)) is not None
    assert requests.close(("number", 1)) is None
    assert requests.close(None) is None


def test_an_id_in_use_cannot_be_used_again() -> None:
    requests = OpenRequests()
    requests.open(asked(1))

    assert "in use" in (requests.open(asked(1)) or "")


def test_there_is_an_end_to_how_many_wait() -> None:
    requests = OpenRequests(max_open=2)

    assert [requests.open(asked(n)) is None for n in range(3)] == [True, True, False]


def test_a_cancelled_request_can_be_answered_but_is_not_drained() -> None:
    requests = OpenRequests()
    for number in range(3):
        requests.open(asked(number))
    requests.cancel(("number", 0))
    requests.cancel(("number", 1))
    requests.cancel(("number", 77))
    requests.cancel(None)

    assert requests.close(("number", 0)) is not None
    assert [one.request_id for one in requests.drain()] == [2]
    assert requests.drain() == []


def test_cancelled_requests_do_not_pile_up() -> None:
    requests = OpenRequests()
    for number in range(1500):
        requests.open(asked(number))
        requests.cancel(("number", number))

    assert requests.close(("number", 0)) is None
    assert requests.close(("number", 1499)) is not None

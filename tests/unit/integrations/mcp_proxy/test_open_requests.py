from demur.integrations.mcp_proxy.message import RpcMessage, parse_message
from demur.integrations.mcp_proxy.open_requests import OpenRequests


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


def test_what_was_cancelled_is_answered_if_an_answer_comes_and_else_not() -> None:
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

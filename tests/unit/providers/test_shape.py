import json
from types import SimpleNamespace
from typing import Any

import pytest

from demur.providers.node import ResponseTooLargeError
from demur.providers.shape import parse_json, shape_of


class UnsayableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class BotoError(Exception):
    def __init__(self) -> None:
        super().__init__("denied")
        self.response = {
            "Error": {"Code": "AccessDenied"},
            "ResponseMetadata": {"HTTPStatusCode": 403, "RequestId": "r-1"},
        }


class GenaiError(Exception):
    def __init__(self) -> None:
        super().__init__("400")
        self.code = 400
        self.details = {"error": {"status": "INVALID_ARGUMENT"}}


class PageError(Exception):
    def __init__(self) -> None:
        super().__init__("bad gateway")
        self.status_code = 502
        self.body: Any = "<html>"


@pytest.mark.parametrize("raw", ["{", "[1,", "text", "", "12", '{"a": 1e'])
def test_text_that_is_no_json_stays_text(raw: str) -> None:
    assert parse_json(raw) == raw


@pytest.mark.parametrize("raw", ["[" * 100_000, "[" + " " * 32_000_000 + "]"])
def test_json_that_is_too_deep_or_too_long_is_not_taken_for_words(raw: str) -> None:
    with pytest.raises(ResponseTooLargeError):
        parse_json(raw)


def test_bytes_and_byte_order_marks_are_read() -> None:
    assert parse_json(memoryview(b'{"a": 1}')) == {"a": 1}
    assert parse_json('\ufeff{"a": 1}') == {"a": 1}


def test_the_inside_of_an_error_is_put_back() -> None:
    error = PageError()
    error.body = {"code": "cyber_policy", "message": "m"}
    assert shape_of(error).body["error"]["code"].text == "cyber_policy"


def test_an_exception_of_botocore_has_status_and_request() -> None:
    shape = shape_of(BotoError())
    assert (shape.status, shape.request_id) == (403, "r-1")
    assert shape.body["Error"]["Code"].text == "AccessDenied"


def test_details_are_a_body_too() -> None:
    shape = shape_of(GenaiError())
    assert shape.status == 400
    assert shape.body["error"]["status"].text == "INVALID_ARGUMENT"
    assert shape.has_type("GenaiError")
    assert not shape.has_type("OtherError")


def test_a_page_of_a_proxy_is_text() -> None:
    assert shape_of(PageError()).text == "<html>"


def test_an_exception_that_cannot_be_printed_has_no_message() -> None:
    assert shape_of(UnsayableError()).message == ""


def test_only_a_response_that_was_read_has_a_body() -> None:
    unread = SimpleNamespace(status_code=400, _content=False, content=b"{}", headers={})
    assert not shape_of(unread).failed
    read = SimpleNamespace(
        status_code=400, _content=b'{"error": {}}', headers={"x-request-id": "q"}
    )
    assert shape_of(read).failed
    assert shape_of(read).request_id == "q"


@pytest.mark.parametrize("given", [(400, "{}"), {"status": 400, "body": {}}, (400, None)])
def test_a_status_and_a_body_are_an_http_answer(given: Any) -> None:
    shape = shape_of(given)
    assert shape.status == 400
    assert shape.failed


@pytest.mark.parametrize("given", [{"status": 400}, {"code": 200, "text": "x"}, {"status": "ok"}])
def test_a_status_alone_is_none(given: Any) -> None:
    assert shape_of(given).status is None


def test_a_body_that_succeeded_is_no_error() -> None:
    shape = shape_of((200, json.dumps({"type": "message"})))
    assert not shape.failed
    assert shape.body["type"].text == "message"

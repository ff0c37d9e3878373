import base64
from types import SimpleNamespace
from typing import Any

import pytest

from demur.enforce.texts import extract_texts
from demur.integrations.mcp_server.content import content_texts, returned_texts, to_wire

TEXT = {"type": "text", "text": "a"}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_an_ordinary_result_is_its_text() -> None:
    picture = {"type": "image", "data": encoded(bytes(range(256)))}
    said = {
        "content": [TEXT, picture, {**TEXT, "text": "b"}],
        "isError": False,
        "resultType": "complete",
        "_meta": None,
    }

    assert returned_texts(said) == "a\nb"
    assert returned_texts({"content": []}) == ""


@pytest.mark.parametrize(
    "said",
    [
        {"content": [{"type": "resource", "resource": {"uri": "x:orders", "text": "b"}}]},
        {"content": [{"type": "resource", "resource": {"uri": "x:1", "text": "orders"}}]},
        {"content": [{"type": "resource", "resource": {"blob": encoded(b"orders")}}]},
        {"content": [{"type": "resource_link", "uri": "x:1", "title": "orders"}]},
        {"content": [{"type": "resource_link", "uri": "x:orders"}]},
        {"content": [{"type": "image", "data": encoded(b"orders"), "mimeType": "text/plain"}]},
        {"content": [{"type": "orders"}]},
        {"content": [{**TEXT, "_meta": {"x": "orders"}}]},
        {"content": ["orders"]},
        {"content": "orders"},
        {"content": [TEXT], "_meta": {"orders": 1}},
        {"content": [TEXT], "isError": "orders"},
    ],
    ids=str,
)
def test_whatever_else_stands_in_a_result_is_read(said: dict[str, Any]) -> None:
    assert "orders" in extract_texts(returned_texts(said))


@pytest.mark.parametrize(
    ("text", "data"),
    [("a", None), ("a", {"result": "a"}), ("3", {"result": 3}), ('{"x": 1}', {"x": 1}), ("a", "a")],
)
def test_data_that_a_text_repeats_is_read_once(text: str, data: Any) -> None:
    said = {"content": [{"type": "text", "text": text}], "structuredContent": data}

    assert returned_texts(said) == text


@pytest.mark.parametrize(
    "data", [{"note": "other"}, {"result": "b"}, {"result": "a", "x": 1}, [], 0]
)
def test_data_that_says_more_is_read_too(data: Any) -> None:
    assert returned_texts({"content": [TEXT], "structuredContent": data}) == ["a", data]
    assert returned_texts({"structuredContent": data}) == ["", data]


def test_a_text_that_nests_without_end_is_no_data() -> None:
    deep = "[" * 100_000
    said = {"content": [{"type": "text", "text": deep}], "structuredContent": {"x": 1}}

    assert returned_texts(said) == [deep, {"x": 1}]


def test_resources_and_prompts_are_read_alike() -> None:
    blob = {"uri": "x:1", "mimeType": "text/plain", "blob": encoded(b"orders")}

    assert "orders" in extract_texts(content_texts({"contents": [blob]}))
    assert content_texts({"messages": [{"role": "user", "content": TEXT}]})[0] == "a"


def test_an_object_is_read_as_it_leaves() -> None:
    result: Any = SimpleNamespace(model_dump=lambda **_settings: {"content": [TEXT]})

    assert to_wire(result) == {"content": [TEXT]}
    assert to_wire({"x": 1}) == {"x": 1}
    assert to_wire(None) == {}

from types import SimpleNamespace
from typing import Any

import pytest

from demur.integrations.mcp_server.content import block_texts, returned_of

TEXT = {"type": "text", "text": "a"}
BLOCKS = [
    TEXT,
    {"type": "image", "data": "aGk="},
    {"type": "resource", "resource": {"uri": "x:1", "text": "b", "name": "not read"}},
    {"type": "resource", "resource": {"uri": "x:2", "blob": "aGk="}},
    {"type": "resource_link", "uri": "x:3", "name": "c", "title": "d", "description": "e"},
]


def as_objects(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: as_objects(item) for name, item in value.items()})
    return value


@pytest.mark.parametrize("form", [lambda one: one, as_objects], ids=["wire", "objects"])
def test_texts_are_those_a_model_reads(form: Any) -> None:
    assert list(block_texts(map(form, BLOCKS))) == ["a", "b", "c", "d", "e", "x:3"]


@pytest.mark.parametrize(
    ("text", "data"),
    [("a", None), ("a", {"result": "a"}), ("3", {"result": 3}), ('{"x": 1}', {"x": 1}), ("a", "a")],
)
def test_data_that_a_text_repeats_is_read_once(text: str, data: Any) -> None:
    assert returned_of([{"type": "text", "text": text}], data) == text


@pytest.mark.parametrize(
    "data", [{"note": "other"}, {"result": "b"}, {"result": "a", "x": 1}, [], 0]
)
def test_data_that_says_more_is_read_too(data: Any) -> None:
    assert returned_of([TEXT], data) == ["a", data]
    assert returned_of(None, data) == ["", data]


def test_a_text_that_nests_without_end_is_no_data() -> None:
    deep = "[" * 100_000

    assert returned_of([{"type": "text", "text": deep}], {"x": 1}) == [deep, {"x": 1}]

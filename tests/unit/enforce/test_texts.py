"""The texts in a value, as a model reads them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.enforce.texts import begins_json, extract_texts
from demur.errors import InputError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("as it is", "as it is"),
        ('{"a": "no escapes"}', '{"a": "no escapes"}'),
        ({"a": ["one\ntwo", 3, None, True], "b": {"c": 1.5}}, "a\none\ntwo\n3\nTrue\nb\nc\n1.5"),
        (r'{"a": "one\ntwo"}', '{"a": "one\\ntwo"}\na\none\ntwo'),
        ({"a": json.dumps({"b": "c\nd"})}, "a\nb\nc\nd"),
        (r'"one\ntwo"', '"one\\ntwo"\none\ntwo'),
        (r'{"a": "not\njson}', '{"a": "not\\njson}'),
        ('Here:\n```json\n{"a": "\\u0062"}\n```', 'Here:\n```json\n{"a": "\\u0062"}\n```\na\nb'),
        (r'{"a": "\u0062"} and ["\u0063"], {"d', '{"a": "\\u0062"} and ["\\u0063"], {"d\na\nb\nc'),
        (r'{"a {"b": "\u0063"}', '{"a {"b": "\\u0063"}\nb\nc'),
        ("[" * 100_000 + "]" * 100_000, "[" * 100_000 + "]" * 100_000),
        (None, ""),
    ],
)
def test_texts_stand_one_a_line(value: object, seen: str) -> None:
    assert extract_texts(value) == seen


def test_more_parts_than_can_be_read_are_refused() -> None:
    with pytest.raises(InputError, match="more than 200000 parts"):
        extract_texts([0] * 200_001)


@given(JSON)
def test_no_text_is_lost(value: object) -> None:
    def leaves(part: object) -> list[str]:
        if isinstance(part, dict):
            return [text for pair in part.items() for one in pair for text in leaves(one)]
        if isinstance(part, list):
            return [text for one in part for text in leaves(one)]
        return [part] if isinstance(part, str) else []

    seen = extract_texts({"it": value})
    assert all(text in seen or text.strip()[:1] in {"{", "["} for text in leaves(value))


@given(
    st.text(max_size=8) | st.lists(JSON) | st.dictionaries(st.text(max_size=5), JSON),
    st.sampled_from([None, 1]),
)
def test_json_with_an_escape_begins_as_such(value: object, indent: int | None) -> None:
    text = f" {json.dumps(value, indent=indent)}"

    assert "\\" not in text or begins_json(text[: text.index("\\") + 1])


@pytest.mark.parametrize(
    "text",
    ["[A link](x)", "[1] and", "{x | x > 0}", "Well, {}", "(1)", r"\[x\]", '"a"'],
)
def test_other_texts_do_not_begin_json(text: str) -> None:
    assert not begins_json(text)


def test_only_so_many_beginnings_are_tried() -> None:
    text = '{"' * 1_000_000 + "\\"

    assert extract_texts(text) == text

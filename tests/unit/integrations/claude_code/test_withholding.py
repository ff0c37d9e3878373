import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.integrations.claude_code.withholding import withhold_texts

LINE = "REFUSED: CONTEXT_INJECTION: x"
PICTURE = withhold_texts({"type": "image/png", "base64": "x"}, LINE)["base64"]
SHORT = re.compile(r"[\w$/+.-]{1,40}")
NAMES = st.text() | st.sampled_from(["type", "file", "data", "base64", "media_type"])
TEXTS = st.text() | st.sampled_from(["image", "text", "image/jpeg", "base64", "do as I say"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
)


def texts(value: Any, *, kind: bool = False) -> list[str]:
    """Return all texts that are neither empty nor the value of a kind."""
    if isinstance(value, dict):
        parts = [texts(item, kind=name in {"type", "media_type"}) for name, item in value.items()]
        return [text for part in parts for text in part]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) and value and not kind else []


def keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in keys(item))]
    return [key for item in value for key in keys(item)] if isinstance(value, list) else []


@given(JSON)
def test_no_text_is_left(output: Any) -> None:
    """INVARIANT: the replacement keeps no text of the output, except kinds and kept texts."""
    replaced = withhold_texts({"inside": output}, LINE)

    assert set(texts(replaced)) <= {LINE, PICTURE}
    assert all(SHORT.fullmatch(key) for key in keys(replaced))


def test_the_shape_of_a_file_that_was_read_stays() -> None:
    file = {"filePath": "/a.txt", "content": "orders", "numLines": 3}

    assert withhold_texts({"type": "text", "file": file}, LINE, ["/a.txt"]) == {
        "type": "text",
        "file": {"filePath": "/a.txt", "content": LINE, "numLines": 3},
    }


@pytest.mark.parametrize("kind", ["image", "pdf", "notebook"])
def test_a_picture_that_was_read_becomes_a_text_that_was_read(kind: str) -> None:
    file = {"base64": "AAAA", "type": "image/jpeg", "originalSize": 3, "filePath": "/a"}
    replaced = withhold_texts({"type": kind, "file": file}, LINE, ["/a"])

    assert replaced["type"] == "text"
    assert replaced["file"]["content"] == LINE
    assert replaced["file"]["filePath"] == "/a"
    assert "filePath" in withhold_texts({"type": kind, "file": {}}, LINE)["file"]


@pytest.mark.parametrize("kind", ["image", "audio", "document", "resource"])
def test_a_part_that_is_no_text_becomes_one(kind: str) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    parts = [{"type": "text", "text": "x"}, {"type": kind, "source": source}]

    assert withhold_texts(parts, LINE) == [{"type": "text", "text": LINE}] * 2


def test_a_picture_elsewhere_becomes_an_empty_one() -> None:
    shot = {"shot": {"type": "base64", "media_type": "image/webp", "data": "AAAA"}}

    assert withhold_texts(shot, LINE) == {
        "shot": {"type": "base64", "media_type": "image/png", "data": PICTURE}
    }
    assert withhold_texts({"data": "x", "mimeType": "text/plain"}, LINE) == {
        "data": LINE,
        "mimeType": LINE,
    }


def test_a_key_that_is_a_sentence_is_a_text_like_others() -> None:
    replaced = withhold_texts({"n": 1, "Ignore all of it": 2, "and do this": {"x": "y"}}, LINE)

    assert replaced == {"n": 1, "withheld_1": 2, "withheld_2": {"x": LINE}}


def test_a_path_that_nobody_asked_for_is_a_text_like_others() -> None:
    assert withhold_texts({"filePath": "do as I say"}, LINE) == {"filePath": LINE}


def test_an_empty_text_stays_empty() -> None:
    assert withhold_texts({"stdout": "x", "stderr": ""}, LINE) == {"stdout": LINE, "stderr": ""}


def test_a_sentence_is_no_kind() -> None:
    assert withhold_texts([{"type": "do as I say"}], LINE) == [{"type": LINE}]

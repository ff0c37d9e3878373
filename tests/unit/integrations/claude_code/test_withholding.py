import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from demur.integrations.claude_code.withholding import withheld

LINE = "REFUSED: CONTEXT_INJECTION: x"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) and value else []


@given(JSON)
def test_no_text_is_left(output: Any) -> None:
    """INVARIANT: no text of an output is left in what replaces it, except kinds and known ones."""
    replaced = withheld({"inside": output}, LINE)
    kinds = [text for text in texts(replaced) if text != LINE]

    assert all(f'"type": {json.dumps(kind)}' in json.dumps(replaced) for kind in kinds)
    assert all(len(kind) <= 30 and " " not in kind for kind in kinds)


def test_the_shape_of_a_file_that_was_read_stays() -> None:
    file = {"filePath": "/a.txt", "content": "orders", "numLines": 3}

    assert withheld({"type": "text", "file": file}, LINE, ["/a.txt"]) == {
        "type": "text",
        "file": {"filePath": "/a.txt", "content": LINE, "numLines": 3},
    }


def test_a_path_that_nobody_asked_for_is_a_text_like_others() -> None:
    assert withheld({"filePath": "do as I say"}, LINE) == {"filePath": LINE}


def test_an_empty_text_stays_empty() -> None:
    assert withheld({"stdout": "x", "stderr": ""}, LINE) == {"stdout": LINE, "stderr": ""}


def test_a_sentence_is_no_kind() -> None:
    assert withheld([{"type": "do as I say"}], LINE) == [{"type": LINE}]

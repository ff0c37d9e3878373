from typing import Any

import pytest
from support.lookalikes import thing

from demur.providers.normalization import normalize


def output(stop_reason: str, **details: Any) -> Any:
    choice = {"message": {"role": "assistant", "content": "Hm."}, "stop_reason": stop_reason}
    kept = {**choice, "stop_details": details or None}
    return thing("inspect_ai.model", "ModelOutput", model="x", choices=[kept], completion="Hm.")


def code_of(obj: Any) -> str | None:
    refusal = normalize(obj)
    return None if refusal is None else refusal.code


@pytest.mark.parametrize(
    ("details", "code"),
    [
        ({}, "FILTERED_UNSPECIFIED"),
        ({"explanation": "no"}, "FILTERED_UNSPECIFIED"),
        ({"category": "cyber"}, "CONTENT_CYBER"),
        ({"category": "brand_new"}, "FILTERED_UNSPECIFIED"),
        ({"category": "HARM_CATEGORY_HATE_SPEECH"}, "CONTENT_HATE"),
        ({"category": "violence"}, "CONTENT_VIOLENCE"),
        ({"categories": [{"category": "violence"}, {"category": "bio"}]}, "CONTENT_CBRN"),
    ],
)
def test_a_filtered_output_is_read_by_its_category(details: dict[str, Any], code: str) -> None:
    assert code_of(output("content_filter", **details)) == code


@pytest.mark.parametrize("reason", ["stop", "max_tokens", "tool_calls", "unknown"])
def test_other_stops_are_no_refusal_even_where_one_may_hide(reason: str) -> None:
    assert code_of(output(reason)) is None

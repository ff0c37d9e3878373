import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.eval_rows import Scripted, a_row, wait

from demur.evals.target import (
    MAX_ERROR_LENGTH,
    MAX_NATIVE_BYTES,
    EvalTarget,
    TargetAnswer,
    TargetError,
    decode_answer,
    encode_answer,
    error_answer,
    limit_size,
    ms_since,
)
from demur.providers.normalization import normalize


def test_anything_of_that_shape_is_a_target() -> None:
    target: EvalTarget = Scripted()

    assert wait(target.answer(a_row(1))).row_id == "r1"
    wait(target.close())


def test_a_wrong_target_is_a_value_error_with_help() -> None:
    error = TargetError("no such thing", help="try another")

    assert isinstance(error, ValueError)
    assert str(error) == "no such thing\n  help: try another"


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(row_id=TEXT, text=TEXT, native=JSON, tokens=st.integers(0, 2**53))
def test_a_line_gives_back_the_answer(row_id: str, text: str, native: Any, tokens: int) -> None:
    answer = TargetAnswer(row_id=row_id, text=text, native=native, prompt_tokens=tokens, ms=1.5)
    line = encode_answer(answer)

    assert b"\n" not in line
    assert decode_answer(line) == answer


def test_default_values_are_not_encoded() -> None:
    assert encode_answer(TargetAnswer(row_id="a", text="b")) == b'{"row_id":"a","text":"b"}'


def test_half_a_character_is_replaced_and_not_fatal() -> None:
    line = encode_answer(TargetAnswer(row_id="a", text="broken \ud83d end", native={"x": 1}))

    assert decode_answer(line).text == "broken ? end"


def test_an_error_is_one_short_line_without_text() -> None:
    answer = error_answer("a", "http", "  first\nsecond\x1b[31m " + "x" * 1000, attempts=3)

    assert answer.error is not None
    assert answer.error.startswith("first\\nsecond\\x1b[31m ")
    assert len(answer.error) == MAX_ERROR_LENGTH
    assert (answer.text, answer.error_kind, answer.attempts) == ("", "http", 3)


def test_a_line_that_holds_no_answer_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_answer(b'{"text": "whose?"}')


@given(native=JSON)
def test_a_small_response_is_kept_whole(native: Any) -> None:
    assert limit_size(native) == native


def test_a_long_response_is_cut_and_still_says_why_it_stopped() -> None:
    message = {"role": "assistant", "content": "", "refusal": None}
    native = {
        "choices": [
            {
                "finish_reason": "content_filter",
                "message": message,
                "logprobs": {"content": [{"token": "word " * 200}] * 5000},
            }
        ],
        "padding": "x" * 10_000,
        "deep": [[[[[[[[[[[[[["too deep"]]]]]]]]]]]]]],
        "many": {str(number): number for number in range(1000)},
    }
    cut = limit_size(native)

    assert len(msgspec.json.encode(cut)) <= MAX_NATIVE_BYTES
    refusal = normalize(cut)
    assert refusal is not None
    assert refusal.code == "FILTERED_UNSPECIFIED"
    assert cut["padding"].endswith("…")


def wide(depth: int) -> Any:
    return "x" * 400 if depth == 0 else {str(n): wide(depth - 1) for n in range(40)}


@pytest.mark.parametrize("native", [wide(3), object(), {1j: 2}])
def test_a_response_that_cannot_be_kept_is_left_out(native: Any) -> None:
    assert limit_size(native) is None


def test_elapsed_time_is_in_milliseconds() -> None:
    began = time.perf_counter() - 2

    assert 2000 <= ms_since(began) < 3000

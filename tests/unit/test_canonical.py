import json
from enum import Enum
from http import HTTPStatus

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from demur.canonical import (
    canonical_bytes,
    canonicalise,
    digest,
    fast_encode,
    is_fast_canonical_number,
)
from demur.codes.vocabulary import Verdict
from demur.errors import InputError

SAFE = 2**53 - 1
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def read(written: bytes) -> object:
    """Read numbers as the canonical form means them: as doubles."""
    return json.loads(written, parse_int=float)


@given(VALUES)
def test_canonical_bytes_are_json_of_the_same_value(value: object) -> None:
    assert read(canonical_bytes(value)) == value


@given(st.integers(-SAFE, SAFE) | st.floats(allow_nan=False) | st.sampled_from([20.0, 1e-5, 9e-6]))
def test_a_number_that_the_fast_encoder_writes_canonically_gives_the_same_bytes(
    number: float,
) -> None:
    if is_fast_canonical_number(number):
        assert fast_encode(number) == canonical_bytes(number)
    assert not is_fast_canonical_number(20.0)


@given(VALUES)
def test_reading_canonical_bytes_and_writing_them_again_changes_nothing(value: object) -> None:
    written = canonical_bytes(value)

    assert canonical_bytes(read(written)) == written


@given(st.dictionaries(st.text(), st.integers(-SAFE, SAFE)), st.data())
def test_the_order_of_keys_makes_no_difference(value: dict[str, int], data: st.DataObject) -> None:
    keys = data.draw(st.permutations(list(value)))

    assert canonical_bytes({key: value[key] for key in keys}) == canonical_bytes(value)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (20, b"20"),
        (20.0, b"20"),
        (-0.0, b"0"),
        (0.1, b"0.1"),
        (SAFE, b"9007199254740991"),
        (-SAFE, b"-9007199254740991"),
        ((1, 2), b"[1,2]"),
        (Verdict.DENY, b'"DENY"'),
        ({"b": 1, "a": None}, b'{"a":null,"b":1}'),
        ("é\n\u2028", '"é\\n\u2028"'.encode()),
    ],
)
def test_a_value_has_these_bytes(value: object, written: bytes) -> None:
    assert canonical_bytes(value) == written


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        [float("-inf")],
        2**53,
        -(2**53),
        10**5000,
        "\ud800",
        {"\udfff": 1},
        {1: "a"},
        b"bytes",
        {1, 2},
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_canonical_form_is_an_error_that_helps(value: object) -> None:
    with pytest.raises(InputError, match=r"no canonical JSON form: \S") as caught:
        canonical_bytes(value)

    assert caught.value.help is not None


def test_a_value_that_contains_itself_is_an_error() -> None:
    loop: list[object] = []
    loop.append(loop)

    with pytest.raises(InputError, match="nested deeper than 100") as caught:
        canonical_bytes(loop)

    assert caught.value.where == "0.0.0.0.0.0.0.0.…"


def test_the_error_names_the_path_to_the_part_at_fault() -> None:
    with pytest.raises(InputError) as caught:
        canonical_bytes({"evidence": {"risk": [0.5, float("nan")]}})

    assert caught.value.where == "evidence.risk.1"


@given(VALUES)
def test_the_bytes_are_those_of_a_plain_implementation_of_the_standard(value: object) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_is_written_as_the_standard_says(value: float) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@given(VALUES)
def test_the_copy_shares_nothing_with_what_was_given(value: object) -> None:
    given_one = {"inner": [value]}
    copy = canonicalise(given_one).value
    given_one["inner"].append("later")

    assert canonical_bytes(copy) == canonical_bytes({"inner": [value]})


class Colour(str, Enum):  # noqa: UP042 - as many code bases still write it
    RED = "red"


def test_members_of_enumerations_are_their_values() -> None:
    assert canonicalise({Colour.RED: [Colour.RED, HTTPStatus.OK]}).value == {"red": ["red", 200]}


def test_the_digest_is_the_sha256_of_the_canonical_bytes() -> None:
    empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

    assert digest({}) == f"sha256:{empty}"
    assert digest({"a": 1.0, "b": 2}) == digest({"b": 2.0, "a": 1})

"""Why a value is not of a type: where, what, and what would be right."""

from enum import StrEnum
from typing import Any, Literal, NamedTuple

import msgspec
import pytest

from demur.errors import InputError
from demur.source.mismatch import describe_mismatch


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    colour: Colour = Colour.RED
    size: Literal["s", "m"] | None = None


class Pair(NamedTuple):
    first: int = 0
    second: Colour = Colour.RED


class Whole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    words: tuple[str, ...] = ()
    parts: dict[str, Part] = {}
    part: Part | None = None
    pair: Pair = Pair()
    flag: bool = False

    def __post_init__(self) -> None:
        if "bad" in self.words:
            raise InputError("`bad` is no word", where="words", help="like `good`")


@pytest.mark.parametrize(
    ("value", "where", "problem", "help_text"),
    [
        ({"name": "a", "wrods": []}, None, "unknown field `wrods`", "did you mean `words`?"),
        (
            {"name": "a", "zzz": 1},
            None,
            "unknown field `zzz`",
            "one of name, words, parts, part, pair, flag",
        ),
        (
            {},
            None,
            "object missing required field `name`",
            "required: name",
        ),
        (
            {"name": "a", "words": "b"},
            "words",
            "expected `array`, got `str`",
            'a list, like `["a", "b"]`',
        ),
        ({"name": 5}, "name", "expected `str`, got `int`", 'a text, like `"a"`'),
        ({"name": "a", "flag": "yes"}, "flag", "expected `bool`, got `str`", "`true` or `false`"),
        (
            {"name": "a", "part": {"colour": "gren"}},
            "part.colour",
            "invalid enum value 'gren'",
            "did you mean `green`?",
        ),
        (
            {"name": "a", "parts": {"b": {"size": "xxl"}}},
            "parts[...].size",
            "invalid enum value 'xxl'",
            "one of m, s",
        ),
        (
            {"name": "a", "pair": [1, "blue"]},
            "pair[1]",
            "invalid enum value 'blue'",
            "one of red, green",
        ),
        (
            {"name": "a", "part": 5},
            "part",
            "expected `object | null`, got `int`",
            "an object with colour, size",
        ),
        (
            [],
            None,
            "expected `object`, got `array`",
            "an object with name, words, parts, part, pair, flag",
        ),
        ({"name": "a", "words": ["bad"]}, "words", "`bad` is no word", "like `good`"),
    ],
)
def test_a_mismatch_says_where_what_and_what_would_be_right(
    value: Any, where: str | None, problem: str, help_text: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Whole)
    assert describe_mismatch(caught.value, Whole) == (where, problem, help_text)

from types import MappingProxyType
from typing import Any

import pytest

from demur.errors import InputError
from demur.guards.tool_call.arguments import (
    MAX_ARGUMENTS_LENGTH,
    ArgumentPart,
    UnreadableArgumentsError,
    read_arguments,
    select_parts,
    find_texts,
)

ARGUMENTS = {"files": [{"path": "a"}, {"path": "b", "more": {"path": "c"}}], "n": 1}


def places(path: str, value: Any = ARGUMENTS) -> list[str]:
    return [part.place for part in select_parts(value, path)]


def test_text_and_values_read_alike() -> None:
    assert read_arguments('{"a": [1, null, true]}') == read_arguments({"a": (1, None, True)})


def test_an_empty_text_is_no_arguments() -> None:
    assert read_arguments(" ") == {}


def test_a_number_larger_than_a_double_holds_is_kept() -> None:
    assert read_arguments({"id": 2**70}) == {"id": 2**70}


def test_other_mappings_become_plain() -> None:
    assert read_arguments(MappingProxyType({"a": MappingProxyType({})})) == {"a": {}}


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"a": 1, "a": 2}', "[" * 100_000, '{"a": ' + "1" * 5000 + "}"]
)
def test_what_a_model_wrote_wrong_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableArgumentsError):
        read_arguments(text)


@pytest.mark.parametrize(
    "value",
    [
        7,
        {1: 2},
        {"a": object()},
        {"a": "x" * (MAX_ARGUMENTS_LENGTH + 1)},
        "x" * (MAX_ARGUMENTS_LENGTH + 1),
        {"a": [0] * 200_001},
    ],
    ids=["number", "key", "object", "size", "text", "parts"],
)
def test_what_a_caller_gave_wrong_is_an_input_error(value: Any) -> None:
    with pytest.raises((InputError, TypeError)) as caught:
        read_arguments(value)

    assert not isinstance(caught.value, UnreadableArgumentsError)


def test_arguments_nested_too_deep_are_refused() -> None:
    deep: Any = []
    for _ in range(150):
        deep = [deep]

    with pytest.raises(InputError):
        read_arguments({"a": deep})


def test_a_path_names_one_part() -> None:
    assert places("files.1.more.path") == ["files.1.more.path"]


def test_a_star_stands_for_any_name_or_number() -> None:
    assert places("files.*.path") == ["files.0.path", "files.1.path"]


def test_two_stars_stand_for_any_depth() -> None:
    assert places("**.path") == ["files.0.path", "files.1.path", "files.1.more.path"]


def test_a_path_that_leads_nowhere_selects_nothing() -> None:
    assert places("files.path.x") == []


def test_texts_are_found_at_any_depth() -> None:
    found = list(find_texts(ArgumentPart("", {"a": "x", "b": [1, {"c": "y"}]})))

    assert found == [ArgumentPart("a", "x"), ArgumentPart("b.1.c", "y")]

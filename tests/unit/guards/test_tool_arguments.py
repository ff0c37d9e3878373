from types import MappingProxyType
from typing import Any

import pytest

from demur.errors import InputError
from demur.guards.tool_arguments import (
    MAX_ARGUMENTS_LENGTH,
    ArgumentPart,
    SchemaViolation,
    UnreadableArgumentsError,
    find_texts,
    find_violations,
    read_arguments,
    select_parts,
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
def test_malformed_arguments_of_a_model_are_unreadable(text: str) -> None:
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
def test_an_invalid_value_of_a_caller_is_an_input_error(value: Any) -> None:
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


def test_a_star_matches_any_name_or_number() -> None:
    assert places("files.*.path") == ["files.0.path", "files.1.path"]


def test_two_stars_stand_for_any_depth() -> None:
    assert places("**.path") == ["files.0.path", "files.1.path", "files.1.more.path"]


def test_a_path_that_leads_nowhere_selects_nothing() -> None:
    assert places("files.path.x") == []


def test_texts_are_found_at_any_depth() -> None:
    found = list(find_texts(ArgumentPart("", {"a": "x", "b": [1, {"c": "y"}]})))

    assert found == [ArgumentPart("a", "x"), ArgumentPart("b.1.c", "y")]


def keywords(value: Any, schema: Any) -> list[str]:
    return sorted(misfit.keyword for misfit in find_violations(value, schema) if misfit.judged)


@pytest.mark.parametrize(
    ("schema", "fits", "misfits_by"),
    [
        ({"type": "object"}, {}, {"type": []}),
        ({"type": "string"}, "a", {"type": 1}),
        ({"type": "integer"}, 3.0, {"type": 3.5}),
        ({"type": "integer"}, 2**70, {"type": True}),
        ({"type": "number"}, 1, {"type": "1"}),
        ({"type": "boolean"}, False, {"type": 0}),
        ({"type": ["string", "null"]}, None, {"type": 1}),
        ({"enum": ["a", 1]}, 1.0, {"enum": True}),
        ({"const": {"a": [1]}}, {"a": [1.0]}, {"const": {"a": [2]}}),
        ({"minimum": 1}, 1, {"minimum": 0}),
        ({"maximum": 1}, 1, {"maximum": float("nan")}),
        ({"exclusiveMinimum": 1}, 2, {"exclusiveMinimum": 1}),
        ({"exclusiveMaximum": 1}, 0, {"exclusiveMaximum": 1}),
        ({"minLength": 2}, "ab", {"minLength": "a"}),
        ({"maxLength": 2}, "ab", {"maxLength": "abc"}),
        ({"minItems": 1}, [1], {"minItems": []}),
        ({"maxItems": 1}, [1], {"maxItems": [1, 2]}),
        ({"minProperties": 1}, {"a": 1}, {"minProperties": {}}),
        ({"maxProperties": 0}, {}, {"maxProperties": {"a": 1}}),
        ({"uniqueItems": True}, [1, True], {"uniqueItems": [1, 1.0]}),
        ({"pattern": "^a+$"}, "aa", {"pattern": "b"}),
        ({"required": ["a"]}, {"a": None}, {"required": {}}),
        ({"properties": {"a": {"type": "null"}}}, {"a": None}, {"type": {"a": 1}}),
        (
            {"properties": {"a": True}, "additionalProperties": False},
            {"a": 1},
            {"additionalProperties": {"b": 1}},
        ),
        ({"additionalProperties": {"type": "null"}}, {"b": None}, {"type": {"b": 1}}),
        ({"patternProperties": {"^x": {"type": "null"}}}, {"y": 1}, {"type": {"x": 1}}),
        ({"items": {"type": "null"}}, [None], {"type": [1]}),
        ({"prefixItems": [{"type": "null"}], "items": False}, [None], {"false": [None, 1]}),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 2, {"maximum": 3}),
        ({"anyOf": [{"type": "null"}, {"minimum": 5}]}, None, {"anyOf": 1}),
        ({"oneOf": [{"minimum": 1}, {"minimum": 5}]}, 2, {"oneOf": 6}),
        ({"not": {"type": "null"}}, 1, {"not": None}),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, None, {"type": 1}),
    ],
)
def test_each_keyword_tells_what_fits(schema: Any, fits: Any, misfits_by: dict[str, Any]) -> None:
    assert keywords(fits, schema) == []
    for keyword, value in misfits_by.items():
        assert keywords(value, schema) == [keyword]


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("a", {"minimum": 3, "minItems": 2, "required": ["x"]}),
        (1, {"maxLength": 0, "pattern": "x", "uniqueItems": True}),
        (1, {"minimum": "low", "enum": "abc"}),
        ({"a": 1}, {"required": "a", "properties": [], "allOf": 7, "enum": {}}),
        ([1], {"prefixItems": {}, "format": "date"}),
        (1, True),
        (1, None),
    ],
)
def test_a_keyword_that_does_not_apply_says_nothing(value: Any, schema: Any) -> None:
    assert keywords(value, schema) == []


@pytest.mark.parametrize(
    ("value", "schema", "keyword"),
    [
        ("a", {"pattern": "(?=a)"}, "pattern"),
        ("a", {"pattern": 7}, "pattern"),
        ({"a": 1}, {"patternProperties": {"(": True}}, "patternProperties"),
        (1, {"$ref": "https://example.com/schema"}, "$ref"),
        (1, {"$ref": "#/nowhere"}, "$ref"),
        (1, {"$ref": 3}, "$ref"),
        (1, {"if": {}, "then": False}, "if"),
    ],
)
def test_a_keyword_that_cannot_be_judged_is_reported(value: Any, schema: Any, keyword: str) -> None:
    [misfit] = find_violations(value, schema)

    assert (misfit.keyword, misfit.judged) == (keyword, False)


def test_a_misfit_says_where() -> None:
    schema = {"properties": {"a": {"items": {"properties": {"b": {"type": "string"}}}}}}

    assert list(find_violations({"a": [{}, {"b": 1}]}, schema)) == [
        SchemaViolation("a.1.b", "type", "has the wrong type", ["string"])
    ]


def test_a_reference_to_itself_ends() -> None:
    assert keywords(1, {"$ref": "#"}) == ["$schema"]


def test_a_schema_that_branches_without_end_is_too_complex() -> None:
    schema: dict[str, Any] = {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 9}}}

    assert "$schema" in keywords(1, {**schema, "$ref": "#/$defs/a"})


def test_a_lone_surrogate_is_matched_like_any_other_character() -> None:
    assert keywords("\ud800", {"pattern": "^.$"}) == []

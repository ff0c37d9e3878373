"""The reference page of policies, generated from their schema."""

from collections.abc import Iterator, Mapping
from typing import Any

from demur.codes.markup import markdown_code, markdown_table
from demur.policy.facts import FINDING_FACTS, ROOTS, SHORTCUTS
from demur.policy.lint import LINT_LEVELS
from demur.policy.loader import policy_schema

_Schema = Mapping[str, Any]

_INTRO = """\
<!-- Generated from the schema of policies; do not edit. -->

# Policy

Every key of `policy.v1`, as `spec/schemas/policy.v1.schema.json` says it.
See [write a policy](../how-to/write-a-policy.md) for how to write one, and
[how a policy decides](../explanation/policy.md) for what it means."""

_PATHS = """\
A field is a dotted path into the request; null counts as not there.
A path begins with one of {roots}.
{shortcuts}, and `amount_usd` is the action's amount in dollars, by the policy's `rates`.
{findings} are what guards saw.
`signals.NAME` is a [signal](../how-to/use-signals.md), which comes with the request:
a number, a text or a boolean.
`signals.guards.GUARD.NAME` is a signal of a guard, which no caller can write.
demur does not judge a request if a missing signal decides whether a rule that refuses matches.
A rule that allows cannot test for a missing signal."""

_VALUE_KINDS = {
    "string": "text",
    "number": "number",
    "integer": "whole number",
    "boolean": "true or false",
    "array": "list",
    "object": "mapping",
}

_LINT_MEANINGS = {
    "broad-code": "A rule gives a code that stands for many narrower ones.",
    "default-allow": "Requests that no rule matches are allowed.",
    "deprecated-code": "A rule gives a deprecated code.",
    "duplicate-condition": "Two rules have the same condition and verdict, and different codes.",
    "invalid-policy": "The policy does not load.",
    "negated-field": (
        "A rule that stops something reads a field by `not`, `ne` or `not_in`, "
        "and no requirement asks for the field."
    ),
    "no-rules": "There are no rules, so every request gets the default.",
    "shadowed-by-stricter": "A stricter rule, or a finding, applies wherever this rule does.",
    "uncovered-field": (
        "A rule that stops something compares a field, and no requirement asks for the field."
    ),
    "unreachable-rule": (
        "Another rule or a finding applies wherever this one does, as strictly and with its codes."
    ),
}
assert tuple(_LINT_MEANINGS) == tuple(LINT_LEVELS)


def policy_page(schema: _Schema) -> str:
    """Return the page."""
    parts = schema["$defs"]
    sections = (
        _INTRO,
        "## The file",
        _key_table(schema, parts),
        "### `defaults`",
        _key_table(parts["defaults"], parts),
        "### `shadow`",
        parts["shadow"]["description"],
        _key_table(parts["shadow"], parts),
        "## A rule",
        _key_table(parts["rule"], parts),
        "### Stages",
        _stage_table(parts["rule"]),
        "### `then`",
        _key_table(parts["then"], parts),
        "## Conditions",
        parts["condition"]["description"],
        _group_table(parts["condition"]),
        "### Fields",
        _field_paths(),
        "### Operators",
        "A plain value stands for `eq`.",
        _operator_table(parts["operators"], parts),
        "## Diagnostics of `demur policy lint`",
        markdown_table(("Diagnostic", "Level", "Meaning"), _diagnostic_rows()),
    )
    return "\n\n".join(sections) + "\n"


def _key_table(schema: _Schema, parts: Mapping[str, _Schema]) -> str:
    needed = schema.get("required", ())
    rows = (
        (
            markdown_code(name),
            _value_kinds(field, parts),
            "yes" if name in needed else "",
            str(_resolve_reference(field, parts).get("description", "")),
        )
        for name, field in schema["properties"].items()
    )
    return markdown_table(("Key", "Takes", "Needed", "Meaning"), rows)


def _resolve_reference(field: _Schema, parts: Mapping[str, _Schema]) -> _Schema:
    """Return the field with what it refers to; its own words come first."""
    if "$ref" not in field:
        return field
    return {**parts[field["$ref"].rpartition("/")[2]], **field}


def _value_kinds(field: _Schema, parts: Mapping[str, _Schema]) -> str:
    whole = _resolve_reference(field, parts)
    if "const" in whole:
        return markdown_code("true" if whole["const"] is True else str(whole["const"]))
    if "enum" in whole:
        return ", ".join(markdown_code(member) for member in whole["enum"])
    kinds = whole["type"] if isinstance(whole["type"], list) else [whole["type"]]
    return ", ".join(_VALUE_KINDS[kind] for kind in kinds)


def _stage_table(rule: _Schema) -> str:
    rows = (
        (
            markdown_code(part["if"]["properties"]["stage"]["const"]),
            ", ".join(
                map(
                    markdown_code,
                    part["then"]["properties"]["then"]["properties"]["verdict"]["enum"],
                )
            ),
        )
        for part in rule["allOf"]
    )
    return markdown_table(("Stage", "Verdicts"), rows)


def _group_table(condition: _Schema) -> str:
    names = ("all", "any", "not")
    rows = ((markdown_code(name), condition["properties"][name]["description"]) for name in names)
    return markdown_table(("Group", "Holds if"), rows)


def _field_paths() -> str:
    return _PATHS.format(
        roots=", ".join(map(markdown_code, sorted({*ROOTS} - {"findings", "signals"}))),
        shortcuts=", ".join(
            f"{markdown_code(key)} is {markdown_code(path)}" for key, path in SHORTCUTS.items()
        ),
        findings=", ".join(map(markdown_code, FINDING_FACTS)),
    )


def _operator_table(operators: _Schema, parts: Mapping[str, _Schema]) -> str:
    rows = (
        (markdown_code(name), _value_kinds(field, parts), field["description"])
        for name, field in operators["properties"].items()
    )
    return markdown_table(("Operator", "Takes", "Holds if"), rows)


def _diagnostic_rows() -> list[tuple[str, str, str]]:
    return [
        (markdown_code(name), str(LINT_LEVELS[name]), meaning)
        for name, meaning in _LINT_MEANINGS.items()
    ]


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the reference page that follows from the schema."""
    yield "docs/reference/policy.md", policy_page(policy_schema())

"""Building blocks of generated files: Markdown, JSON text and JSON Schema.

Every Markdown function escapes its input, so that no text can break out of its place.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

GENERATED_NOTICE = "Generated from the registry of reason codes; do not edit."


def single_line(text: str) -> str:
    """Return `text` on one line and without invisible characters, fit for a comment."""
    visible = "".join(c for c in text if c.isprintable() or c.isspace())
    return " ".join(visible.split())


def as_json(value: object) -> str:
    """Return `value` as JSON for people to read, with a final newline."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


GENERATED_COMMENT = f"<!-- {GENERATED_NOTICE} -->"

_MARKDOWN_SPECIAL = re.compile(r"([\\`*\[\]<>])")
_CODE_NAME = re.compile(r"((?:[a-z0-9.-]+/)?[A-Z][A-Z0-9_]*[A-Z0-9])")


def markdown_prose(text: str, address: Callable[[str], str | None] = lambda _: None) -> str:
    """Return `text` as a paragraph, with a link for each code that has an address."""
    parts = _CODE_NAME.split(single_line(text))
    return "".join(
        markdown_link(part, target)
        if index % 2 and (target := address(part))
        else _MARKDOWN_SPECIAL.sub(r"\\\1", part)
        for index, part in enumerate(parts)
    )


def _max_backtick_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def markdown_code(text: str) -> str:
    """Return `text` as a code span, with as many backticks as needed."""
    line = single_line(text)
    ticks = "`" * (_max_backtick_run(line) + 1)
    space = " " if "`" in (line[:1], line[-1:]) else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def markdown_fence(lines: Iterable[str]) -> str:
    """Return the lines as a block of plain text."""
    body = "\n".join(lines)
    ticks = "`" * max(3, _max_backtick_run(body) + 1)
    return f"{ticks}text\n{body}\n{ticks}"


def markdown_link(name: str, target: str) -> str:
    """Return a link that shows `name` as code."""
    return f"[{markdown_code(name)}]({target})"


def heading_slug(heading: str) -> str:
    """Return the anchor that renderers give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. The cells must be Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_table_cell, line))} |" for line in lines)


def _table_cell(text: str) -> str:
    return text.replace("|", "\\|")


JsonSchema: TypeAlias = dict[str, Any]

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_LOCAL = "[A-Z][A-Z0-9_]{0,61}[A-Z0-9]"
_NUMBER = "(?:0|[1-9][0-9]{0,8})"

# Parts of patterns: the schemas combine them and add `^` and `$`.
DOMAIN_PATTERN = rf"(?:x-local|(?=[a-z0-9.-]{{1,253}}(?:[/@]|$)){_LABEL}(?:\.{_LABEL})+)"
VERSION_PATTERN = rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
CODE_PATTERN = _LOCAL
DOMAIN_CODE_PATTERN = f"{DOMAIN_PATTERN}/{_LOCAL}"


def enum_schema(words: Iterable[str], description: str, *, null: bool = False) -> JsonSchema:
    """Return the schema of a word from a closed list, or null where that is allowed."""
    members: list[str | None] = [str(member) for member in words]
    return {"description": description, "enum": members + [None] * null}


def nullable_schema(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a typed value that may also be null."""
    return {**schema, "type": [schema["type"], "null"]}

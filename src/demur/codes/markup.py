"""Markdown for generated pages.

`markdown_prose`, `markdown_code` and `markdown_fence` escape their text. Targets of links and
cells of tables must be Markdown already.
"""

import re
from collections.abc import Callable, Iterable, Sequence

GENERATED_NOTICE = "Generated from the registry of reason codes; do not edit."


def collapse_to_line(text: str) -> str:
    """Return `text` on one line and without invisible characters, fit for a comment."""
    visible = "".join(c for c in text if c.isprintable() or c.isspace())
    return " ".join(visible.split())


GENERATED_COMMENT = f"<!-- {GENERATED_NOTICE} -->"

_MARKDOWN_SPECIAL = re.compile(r"([\\`*\[\]<>])")
_CODE_NAME = re.compile(r"((?:[a-z0-9.-]+/)?[A-Z][A-Z0-9_]*[A-Z0-9])")


def markdown_prose(text: str, address: Callable[[str], str | None] = lambda _: None) -> str:
    """Return `text` as a paragraph, with a link for each code that has an address."""
    parts = _CODE_NAME.split(collapse_to_line(text))
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
    line = collapse_to_line(text)
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
    cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


# A spreadsheet takes a cell that begins so for a formula, full-width forms included.
_FORMULA = re.compile(r"[\s\x00]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")


def escape_cell(cell: str) -> str:
    """Return a cell of a CSV file that no spreadsheet runs: a formula gets an apostrophe.

    A mere `-` stays, which means that there is nothing.
    """
    # INVARIANT: no cell that demur writes begins like a formula.
    return f"'{cell}" if cell != "-" and _FORMULA.match(cell) else cell

"""Pieces of Markdown that stay whole whatever text goes into them."""

import re
from collections.abc import Callable, Iterable, Sequence

from demur.codes.export.text import NOTICE, plain_line

__all__ = ["COMMENT", "code", "fence", "link", "prose", "slug", "table"]

COMMENT = f"<!-- {NOTICE} -->"

_SPECIAL = re.compile(r"([\\`*\[\]<>])")
_CODE = re.compile(r"((?:[a-z0-9.-]+/)?[A-Z][A-Z0-9_]*[A-Z0-9])")


def prose(text: str, address: Callable[[str], str | None] = lambda _: None) -> str:
    """Return `text` as a paragraph, with a link for each code that has an address."""
    parts = _CODE.split(plain_line(text))
    return "".join(
        link(part, target)
        if index % 2 and (target := address(part))
        else _SPECIAL.sub(r"\\\1", part)
        for index, part in enumerate(parts)
    )


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def code(text: str) -> str:
    """Return `text` as a code span, with as many backticks as needed."""
    line = plain_line(text)
    ticks = "`" * (_longest_run(line) + 1)
    space = " " if "`" in (line[:1], line[-1:]) else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def fence(lines: Iterable[str]) -> str:
    """Return the lines as a block of plain text."""
    body = "\n".join(lines)
    ticks = "`" * max(3, _longest_run(body) + 1)
    return f"{ticks}text\n{body}\n{ticks}"


def link(name: str, target: str) -> str:
    """Return a link that shows `name` as code."""
    return f"[{code(name)}]({target})"


def slug(heading: str) -> str:
    """Return the anchor that renderers give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. The cells must be Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

"""Pages that show SQL, each block for the database that its first line names."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["SqlBlock", "find_statement", "read_blocks", "unify_numbers"]

FENCE = re.compile(r"^```sql\n-- (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class SqlBlock(NamedTuple):
    """The SQL of a section for one database."""

    section: str
    database: str
    sql: str


def read_blocks(page: Path) -> list[SqlBlock]:
    """Return the SQL blocks of a page."""
    sections = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [
        SqlBlock(section.partition("\n")[0], found[1], found[2])
        for section in sections
        for found in FENCE.finditer(section)
    ]


def find_statement(blocks: Sequence[SqlBlock], section: str, database: str) -> str:
    """Return the SQL of a section for a database."""
    [sql] = [one.sql for one in blocks if (one.section, one.database) == (section, database)]
    return sql


def unify_numbers(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows with every number as a float: the databases differ in kinds of numbers."""
    return [tuple(v if isinstance(v, str) else float(v) for v in row) for row in rows]

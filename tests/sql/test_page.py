"""The page about querying is true: its statements run, and both databases answer alike."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

Ask = Callable[[str], list[tuple[Any, ...]]]

PAGE = Path(__file__).parents[2] / "docs/how-to/query-records.md"
FENCE = re.compile(r"^```sql\n-- (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    section: str
    database: str
    sql: str


def blocks() -> list[Block]:
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [
        Block(section.partition("\n")[0], found[1], found[2])
        for section in sections
        for found in FENCE.finditer(section)
    ]


BLOCKS = blocks()
PAIRS = sorted({block.section for block in BLOCKS if block.database == "sqlite"})


def statement(section: str, database: str) -> str:
    [sql] = [one.sql for one in BLOCKS if (one.section, one.database) == (section, database)]
    return sql


def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows with every number as a float: the databases differ in kinds of numbers."""
    return [tuple(v if isinstance(v, str) else float(v) for v in row) for row in rows]


def test_every_sql_block_names_its_database() -> None:
    assert PAGE.read_text(encoding="utf-8").count("```sql") == len(BLOCKS)
    assert {block.database for block in BLOCKS} == {"sqlite", "postgresql"}


@pytest.mark.parametrize("section", PAIRS)
def test_both_databases_give_the_same_answer(
    section: str, ask_sqlite: Ask, ask_postgres: Ask
) -> None:
    here = plain(ask_sqlite(statement(section, "sqlite")))
    there = plain(ask_postgres(statement(section, "postgresql")))

    assert here == there
    assert all(any(value for value in row) for row in here)
    assert here


@pytest.mark.parametrize(
    "block", [b for b in BLOCKS if b.section not in PAIRS], ids=lambda b: b.sql.split("\n")[0]
)
def test_every_other_statement_runs(block: Block, ask_postgres: Ask) -> None:
    assert block.database == "postgresql"
    rows = ask_postgres(block.sql)

    assert ("SELECT COUNT" in block.sql) == bool(rows)


def test_every_column_is_explained(ask_sqlite: Ask) -> None:
    columns = ask_sqlite("SELECT name FROM pragma_table_info('decision_records')")
    table = PAGE.read_text(encoding="utf-8").partition("## The columns")[2].partition("## ")[0]

    assert columns
    assert all(f"`{name}`" in table for (name,) in columns)

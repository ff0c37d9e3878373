"""The page about querying is true: its statements run, and both databases answer alike."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.sql_pages import SqlBlock, find_statement, read_blocks, unify_numbers

Ask = Callable[[str], list[tuple[Any, ...]]]

PAGE = Path(__file__).parents[2] / "docs/how-to/query-records.md"
BLOCKS = read_blocks(PAGE)
PAIRS = sorted({block.section for block in BLOCKS if block.database == "sqlite"})


def test_every_sql_block_names_its_database() -> None:
    assert PAGE.read_text(encoding="utf-8").count("```sql") == len(BLOCKS)
    assert {block.database for block in BLOCKS} == {"sqlite", "postgresql"}


@pytest.mark.parametrize("section", PAIRS)
def test_both_databases_give_the_same_answer(
    section: str, ask_sqlite: Ask, ask_postgres: Ask
) -> None:
    here = unify_numbers(ask_sqlite(find_statement(BLOCKS, section, "sqlite")))
    there = unify_numbers(ask_postgres(find_statement(BLOCKS, section, "postgresql")))

    assert here == there
    assert all(any(value for value in row) for row in here)
    assert here


@pytest.mark.parametrize(
    "block", [b for b in BLOCKS if b.section not in PAIRS], ids=lambda b: b.sql.split("\n")[0]
)
def test_every_other_statement_runs(block: SqlBlock, ask_postgres: Ask) -> None:
    assert block.database == "postgresql"
    rows = ask_postgres(block.sql)

    assert ("SELECT COUNT" in block.sql) == bool(rows)


def test_every_column_is_explained(ask_sqlite: Ask) -> None:
    columns = ask_sqlite("SELECT name FROM pragma_table_info('decision_records')")
    table = PAGE.read_text(encoding="utf-8").partition("## The columns")[2].partition("## ")[0]

    assert columns
    assert all(f"`{name}`" in table for (name,) in columns)

"""The page about Parquet is true: its queries run, and answer as the store does."""

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.sql_pages import find_statement, read_blocks, unify_numbers

from demur.audit.parquet_rows import FINDING_FIELDS, PARQUET_COLUMNS
from demur.model.decision import Outcome
from demur.store.opening import open_store
from demur.store.rows import Tallies

Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Rows]

RECORDS_PAGE, PAGE = (
    Path(__file__).parents[2] / f"docs/how-to/{name}.md"
    for name in ("query-records", "query-parquet")
)
BLOCKS = read_blocks(PAGE)
OPENING = "Open the files"
ENGINES = ("duckdb", "spark")
SECTIONS = [one.section for one in BLOCKS if one.database == "duckdb" and one.section != OPENING]
RECORDS_SECTIONS = {one.section for one in read_blocks(RECORDS_PAGE)}


@pytest.fixture(scope="module")
def ask_duckdb(parquet_folder: Path) -> Iterator[Ask]:
    """Return the function that asks DuckDB as the page does."""
    duckdb = pytest.importorskip("duckdb")
    opening = find_statement(BLOCKS, OPENING, "duckdb").replace(
        "'decisions/", f"'{parquet_folder}/"
    )
    with duckdb.connect() as connection:
        # Whoever asks may sit anywhere: the answers must not depend on it.
        connection.execute("SET TimeZone = 'Asia/Kolkata'")
        connection.execute(opening)
        yield lambda query: connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def ask_spark(parquet_folder: Path) -> Iterator[Ask]:
    """Return the function that asks Spark as the page does."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: make test-cluster")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    sql = __import__("pyspark.sql", fromlist=["sql"])
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.pythonExec = sys.executable
    opening = find_statement(BLOCKS, OPENING, "spark")
    for part in filter(str.strip, opening.split(";")):
        session.sql(part.replace("'decisions'", f"'{parquet_folder}'"))

    def ask(query: str) -> Rows:
        return [tuple(row) for row in session.sql(query.rstrip().rstrip(";")).collect()]

    yield ask
    session.stop()


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.cluster)])
def engine(request: pytest.FixtureRequest) -> tuple[str, Ask]:
    """Return the name of an engine, and the function that asks it."""
    return request.param, request.getfixturevalue(f"ask_{request.param}")


@pytest.fixture(scope="module")
def tallies(sqlite_path: Path, now: datetime) -> Tallies:
    """Return what the dashboard counts."""
    with open_store(sqlite_path) as store:
        return store.read_tallies(None, now - timedelta(days=5_000), now + timedelta(days=5_000))


def test_every_query_is_shown_for_every_engine() -> None:
    assert PAGE.read_text(encoding="utf-8").count("```sql") == len(BLOCKS)
    for section in (OPENING, *SECTIONS):
        assert {one.database for one in BLOCKS if one.section == section} == {*ENGINES}


@pytest.mark.parametrize("section", [one for one in SECTIONS if one in RECORDS_SECTIONS])
def test_the_files_answer_as_the_store_does(
    section: str, engine: tuple[str, Ask], ask_sqlite: Ask
) -> None:
    name, ask = engine
    expected = ask_sqlite(find_statement(read_blocks(RECORDS_PAGE), section, "sqlite"))

    assert expected
    assert unify_numbers(ask(find_statement(BLOCKS, section, name))) == unify_numbers(expected)


@pytest.mark.parametrize("kind", ["decisions", "reasons", "findings"])
def test_the_files_hold_what_the_dashboard_counts(
    kind: str, engine: tuple[str, Ask], tallies: Tallies
) -> None:
    name, ask = engine
    expected = sorted(map(tuple, getattr(tallies, kind)))

    assert expected
    assert sorted(ask(find_statement(BLOCKS, f"The dashboard: {kind} by hour", name))) == expected


def test_a_tenant_is_read_as_it_is_named(engine: tuple[str, Ask], ask_sqlite: Ask) -> None:
    query = "SELECT tenant, COUNT(*) FROM {} GROUP BY tenant ORDER BY tenant"
    own = engine[1](query.format("decisions"))

    assert own == ask_sqlite(query.format("decision_records"))
    assert len(own) == 2


def test_a_day_is_that_of_the_time(engine: tuple[str, Ask], ask_sqlite: Ask) -> None:
    there = ask_sqlite(
        "SELECT substr(created_at, 1, 10), COUNT(*) FROM decision_records GROUP BY 1 ORDER BY 1"
    )
    here = engine[1]("SELECT CAST(day AS STRING), COUNT(*) FROM decisions GROUP BY 1 ORDER BY 1")

    assert here == there


def test_every_column_is_explained_in_its_order() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## The columns")[2]
    rows = [line.split("|")[1:4] for line in table.splitlines() if line.startswith("| `")]
    named = [name for first, _, _ in rows for name in re.findall(r"`(\w+)`", first)]

    assert sorted(named) == sorted(column.name for column in PARQUET_COLUMNS)
    for first, kinds, _ in rows:
        columns = re.findall(r"`(\w+)`", first)
        nullable = {column.nullable for column in PARQUET_COLUMNS if column.name in columns}
        assert nullable == {"or null" in kinds}, first
    text = " ".join(kinds for _, kinds, _ in rows)
    assert all(f"`{name}`" in text for name in FINDING_FIELDS)
    assert all(f"`{outcome}`" in table for outcome in Outcome)

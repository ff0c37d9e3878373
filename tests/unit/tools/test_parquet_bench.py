"""The bench of Parquet files generates exactly what the export writes."""

import importlib.util
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest
from support.store_records import make_record

from demur.audit.parquet_folder import export_parquet
from demur.model.decision import Outcome
from demur.store.opening import open_store

pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[3] / "bench/parquet.py"
    spec = importlib.util.spec_from_file_location("parquet_bench", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_files_are_like_exported_ones(bench: ModuleType, tmp_path: Path) -> None:
    with open_store(":memory:") as store:
        store.put(make_record(tenant="tenant-007", created_at="2027-01-30T12:00:00.000Z"))
        export_parquet(store, tmp_path / "exported")
    made = tmp_path / "made"
    size = bench.write_partition(made, date(2027, 1, 31), 500, (bench.DAYS - 2, 7))

    [exported] = (tmp_path / "exported").glob("day=*/*/*.parquet")
    [generated] = made.rglob("*.parquet")
    assert generated.parent.relative_to(made) == exported.parent.relative_to(tmp_path / "exported")
    assert pq.read_schema(generated).equals(pq.read_schema(exported), check_metadata=True)
    groups = [pq.read_metadata(path).row_group(0) for path in (generated, exported)]
    for number in range(groups[0].num_columns):
        ours, theirs = (group.column(number) for group in groups)
        assert (ours.compression, ours.physical_type) == (theirs.compression, theirs.physical_type)
    assert size == generated.stat().st_size


def test_generated_rows_are_decisions(bench: ModuleType, tmp_path: Path) -> None:
    bench.write_partition(tmp_path, date(2027, 1, 31), 500, (0, 7))
    [path] = tmp_path.rglob("*.parquet")
    rows = pq.ParquetFile(path).read().to_pylist()

    assert [row["seq"] for row in rows] == list(range(1, 501))
    assert len({row["decision_id"] for row in rows}) == 500
    assert sorted(rows, key=lambda row: row["created_at"]) == rows
    assert {row["created_at"].date() for row in rows} == {date(2027, 1, 2)}
    ids = [row["decision_id"][:10] for row in rows]
    assert ids == sorted(ids)
    for row in rows:
        assert row["outcome"] == Outcome.from_output(row["verdict"], row["decision_output"])
        assert (row["refusal_class"] is None) == (row["verdict"] == "ALLOW")
        assert bool(row["reason_codes"]) == (row["verdict"] != "ALLOW")
        assert (row["amount_value"] is None) == (row["amount_currency"] is None)


def test_the_bench_asks_what_the_page_shows(bench: ModuleType) -> None:
    opening, queries = bench.page_queries()

    assert opening.startswith("CREATE VIEW decisions")
    assert len(queries) == 6

"""A folder of Parquet files follows its store: new, erased and retired records, and lost files."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.store_records import make_record, moment, tamper_with

from demur.audit import parquet_folder
from demur.audit.parquet_folder import (
    ParquetError,
    ParquetExport,
    encode_name,
    export_parquet,
    read_manifests,
)
from demur.audit.parquet_rows import FINDING_FIELDS, PARQUET_COLUMNS, parquet_schema
from demur.canonical import digest_of_bytes
from demur.codes.vocabulary import DecisionOutput, Verdict
from demur.errors import MissingExtraError
from demur.model.record import DecisionRecord
from demur.store.backend import StorageError
from demur.store.opening import open_store
from demur.store.store import Store

pq = pytest.importorskip("pyarrow.parquet")

HOUR = 3_600_000
# Changing one of these breaks queries of others: then the schema needs a new version.
SCHEMA = """
decision_id: string not null
created_at: timestamp[ms, tz=UTC] not null
tenant: string not null
request_id: string
root_id: string
subject: string
verdict: string not null
decision_output: string not null
refusal_class: string
outcome: string not null
action_type: string not null
amount_value: double
amount_currency: string
reason_codes: list<element: string not null> not null
leading_code: string
matched_rules: list<element: string not null> not null
findings: list<element: struct<surface: string not null, code: string not null, action: string \
not null> not null>
policy_id: string not null
policy_version: string not null
policy_digest: string not null
registry_digest: string not null
engine_version: string not null
basis: string not null
enforced: bool not null
confirmed: bool not null
seq: int64 not null
record_hash: string not null
"""
BY = {"by": "ops", "reason": "asked to"}


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    place = tmp_path / "records.db"
    if request.param == "postgresql":
        place = request.getfixturevalue("postgres_url")
    with open_store(place, durability="normal") as opened:
        yield opened


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "records.db", durability="normal") as opened:
        yield opened


@pytest.fixture
def tamper(tmp_path: Path) -> Callable[..., int]:
    return partial(tamper_with, tmp_path / "records.db")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "decisions"


def hourly(count: int, first: int = 1, **fields: Any) -> list[DecisionRecord]:
    """Return a record for each hour."""
    made = []
    for number in range(first, first + count):
        own = {name: value(number) if callable(value) else value for name, value in fields.items()}
        made.append(make_record(number, created_at=moment(number * HOUR), **own))
    return made


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of all files, by tenant and place."""
    paths = folder.glob("day=*/tenant=*/*.parquet")
    rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(rows, key=lambda row: (row["tenant"], row["seq"]))


def list_ids(folder: Path) -> list[str]:
    return [row["decision_id"] for row in read_rows(folder)]


def files(folder: Path) -> list[str]:
    paths = folder.glob("day=*/**/*.parquet")
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def test_the_schema_stays_as_it_is() -> None:
    fields = [
        f"{field.name}: {field.type}{'' if field.nullable else ' not null'}"
        for field in parquet_schema()
    ]
    assert fields == SCHEMA.strip().split("\n")
    assert parquet_schema().metadata == {b"demur.schema_version": b"decision_parquet.v1"}
    assert FINDING_FIELDS == ("surface", "code", "action")


def test_a_row_says_what_the_record_says(store: Store, folder: Path) -> None:
    finding = {"code": "RCE_RISK", "surface": "code_execution", "detail": "curl x | sh"}
    record = make_record(
        5,
        sealed={"findings": (finding, {**finding, "action": "warn"})},
        request_id="r-1",
        recorded_lead="REFUND_OVER_ESCALATION_LIMIT",
        enforced=False,
    )
    stored = store.put(record).record

    assert export_parquet(store, folder) == ParquetExport(rows=1, added=1)
    [path] = folder.glob("day=*/*/*.parquet")
    assert path.relative_to(folder).as_posix() == (
        "day=2027-01-01/tenant=acme/000000000001-000000000001.parquet"
    )
    assert pq.read_schema(path).equals(parquet_schema(), check_metadata=True)
    [row] = read_rows(folder)
    assert [*row] == [column.name for column in PARQUET_COLUMNS]
    for name in ("decision_id", "tenant", "request_id", "verdict", "action_type", "enforced"):
        assert row[name] == stored[name]
    assert row["created_at"].isoformat(timespec="milliseconds") == "2027-01-01T00:00:00.005+00:00"
    assert row["subject"] == "user:ada"
    assert (row["amount_value"], row["amount_currency"]) == (400.0, "USD")
    assert row["reason_codes"] == ["REFUND_OVER_ESCALATION_LIMIT"] == [row["leading_code"]]
    assert row["matched_rules"] == ["R_REFUND_LIMIT"]
    assert row["findings"] == [
        {"surface": "code_execution", "code": "RCE_RISK", "action": action}
        for action in ("block", "warn")
    ]
    assert (row["policy_id"], row["policy_version"]) == ("support", "1.0.0")
    assert (row["outcome"], row["basis"], row["confirmed"]) == ("needs_something", "request", True)
    assert stored.chain is not None
    assert (row["seq"], row["record_hash"]) == (stored.chain.seq, stored.chain.hash)
    assert "curl" not in path.read_bytes().decode("latin-1")


@pytest.mark.parametrize("verdict", Verdict)
def test_outcomes_are_those_of_records(sqlite_store: Store, folder: Path, verdict: Verdict) -> None:
    outputs = list(DecisionOutput)
    records = hourly(
        len(outputs), verdict=verdict, decision_output=lambda number: outputs[number - 1]
    )
    sqlite_store.put_many(records)
    export_parquet(sqlite_store, folder)

    assert [row["outcome"] for row in read_rows(folder)] == [one.outcome for one in records]


def test_a_second_run_adds_only_what_is_new(store: Store, folder: Path) -> None:
    store.put_many(hourly(30))
    assert export_parquet(store, folder) == ParquetExport(rows=30, added=2)
    before = {path: (folder / path).stat().st_mtime_ns for path in files(folder)}
    assert export_parquet(store, folder) == ParquetExport()

    store.put_many(hourly(5, first=31))
    store.put_many(hourly(3, first=50, tenant="other"))

    assert export_parquet(store, folder, tenant="acme") == ParquetExport(rows=5, added=1)
    assert export_parquet(store, folder) == ParquetExport(rows=3, added=1)
    assert list_ids(folder) == [
        record.decision_id for record in (*hourly(35), *hourly(3, first=50))
    ]
    assert (
        before.items()
        <= {path: (folder / path).stat().st_mtime_ns for path in files(folder)}.items()
    )


def test_the_manifest_names_each_file_with_its_rows_and_digest(
    sqlite_store: Store, folder: Path
) -> None:
    sqlite_store.put_many(hourly(30))
    export_parquet(sqlite_store, folder)

    [manifest] = read_manifests(folder)
    assert [file.path for file in manifest.files] == files(folder)
    for file in manifest.files:
        path = folder / file.path
        assert (file.rows, file.size) == (pq.read_metadata(path).num_rows, path.stat().st_size)
        assert file.digest == digest_of_bytes(path.read_bytes())
    assert (manifest.seq, manifest.event_seq) == (30, 30)


def test_only_the_owner_may_read_what_is_written(sqlite_store: Store, folder: Path) -> None:
    sqlite_store.put(make_record())
    export_parquet(sqlite_store, folder)

    assert not [path for path in (folder, *folder.rglob("*")) if path.stat().st_mode & 0o066]


def test_large_days_are_split_into_files_that_fit_in_memory(
    sqlite_store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_folder, "_MAX_ROWS", 4)
    monkeypatch.setattr(parquet_folder, "_ROWS_AT_ONCE", 2)
    sqlite_store.put_many([make_record(number) for number in range(1, 11)])

    assert export_parquet(sqlite_store, folder) == ParquetExport(rows=10, added=3)
    assert [file.rows for file in read_manifests(folder)[0].files] == [4, 4, 2]


def test_records_of_a_clock_that_was_ahead_stand_in_their_own_day(
    sqlite_store: Store, folder: Path
) -> None:
    days = ("2027-01-02", "2027-01-01", "2027-01-02")
    for number, day in enumerate(days, start=1):
        sqlite_store.put(make_record(number, created_at=f"{day}T10:00:00.000Z"))
    export_parquet(sqlite_store, folder)

    assert files(folder) == [
        "day=2027-01-01/tenant=acme/000000000002-000000000002.parquet",
        "day=2027-01-02/tenant=acme/000000000001-000000000003.parquet",
    ]


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("acme", "acme"),
        ("acme.example-2_b", "acme.example-2_b"),
        ("Acme", "%41cme"),
        ("a/b=c d%", "a%2Fb%3Dc%20d%25"),
        (".", "%2E"),
        ("..", "%2E."),
        ("_demur", "%5Fdemur"),
        ("größe", "größe"),
        ("Ö", "%C3%96"),
        ("~", "%7E"),
        ("\x00\n", "%00%0A"),
    ],
)
def test_tenants_are_names_of_folders(
    sqlite_store: Store, folder: Path, name: str, encoded: str
) -> None:
    assert encode_name(name) == encoded
    sqlite_store.put(make_record(tenant=name))
    export_parquet(sqlite_store, folder)

    assert [row["tenant"] for row in read_rows(folder)] == [name]
    assert export_parquet(sqlite_store, folder) == ParquetExport()
    assert [path.name for path in folder.iterdir() if path.name != "_demur"] == ["day=2027-01-01"]


def test_a_tenant_too_long_for_a_folder_is_a_digest(sqlite_store: Store, folder: Path) -> None:
    names = ["Ö" * 256, "Ö" * 255]
    for number, name in enumerate(names, start=1):
        sqlite_store.put(make_record(number, tenant=name))
    export_parquet(sqlite_store, folder)

    assert {encode_name(name)[0] for name in names} == {"~"}
    assert sorted(row["tenant"] for row in read_rows(folder)) == sorted(names)


# -- erased, retired ---------------------------------------------------------------------------


def test_what_is_erased_is_gone_after_the_next_run(store: Store, folder: Path) -> None:
    finding = {"code": "RCE_RISK", "surface": "code_execution"}
    store.put_many(
        [
            make_record(
                number,
                created_at=moment(number * HOUR),
                sealed={
                    "requester": f"user:{'ada' if number > 30 else 'bob'}",
                    "findings": (finding,),
                },
            )
            for number in range(1, 61)
        ]
    )
    export_parquet(store, folder)
    assert store.erase_subject("acme", "user:ada", **BY) == 30

    done = export_parquet(store, folder)

    assert done == ParquetExport(rewritten=2)
    rows = read_rows(folder)
    assert len(rows) == 60
    assert {(row["subject"], row["findings"] is None) for row in rows[:30]} == {("user:bob", False)}
    assert {(row["subject"], row["findings"] is None) for row in rows[30:]} == {(None, True)}
    assert not [path for path in files(folder) if b"user:ada" in (folder / path).read_bytes()]
    assert export_parquet(store, folder) == ParquetExport()


def test_what_was_erased_before_the_first_run_is_never_written(
    sqlite_store: Store, folder: Path
) -> None:
    sqlite_store.put_many(hourly(3))
    sqlite_store.erase_subject("acme", "user:ada", **BY)
    export_parquet(sqlite_store, folder)

    assert [row["subject"] for row in read_rows(folder)] == [None] * 3
    assert export_parquet(sqlite_store, folder) == ParquetExport()


def test_what_is_retired_is_gone_after_the_next_run(store: Store, folder: Path) -> None:
    store.put_many(hourly(60))
    export_parquet(store, folder)
    assert store.retire_records("acme", moment(36 * HOUR), **BY) == 35

    done = export_parquet(store, folder)

    assert done == ParquetExport(rewritten=1, removed=1)
    assert list_ids(folder) == [record.decision_id for record in hourly(25, first=36)]
    assert not (folder / "day=2027-01-01").exists()
    assert export_parquet(store, folder) == ParquetExport()
    store.put_many(hourly(2, first=61))
    assert export_parquet(store, folder) == ParquetExport(rows=2, added=1)


def test_records_retired_before_they_were_exported_are_left_out(
    sqlite_store: Store, folder: Path
) -> None:
    sqlite_store.put_many(hourly(10))
    export_parquet(sqlite_store, folder)
    sqlite_store.put_many(hourly(50, first=11))
    sqlite_store.retire_records("acme", moment(36 * HOUR), **BY)

    assert export_parquet(sqlite_store, folder) == ParquetExport(rows=25, added=2, removed=1)
    assert list_ids(folder) == [record.decision_id for record in hourly(25, first=36)]


@pytest.mark.parametrize("change", ["moved", "changed"])
def test_files_that_cannot_be_reached_are_named_until_they_are_back(
    sqlite_store: Store, folder: Path, change: str
) -> None:
    sqlite_store.put_many(hourly(30))
    export_parquet(sqlite_store, folder)
    path = folder / files(folder)[0]
    original = path.read_bytes()
    if change == "moved":
        path.unlink()
    else:
        path.write_bytes(original + b"x")
    assert export_parquet(sqlite_store, folder).unreachable == ()
    sqlite_store.erase_subject("acme", "user:ada", **BY)

    first, second = (export_parquet(sqlite_store, folder) for _ in range(2))

    assert (first.rewritten, second.rewritten) == (1, 0)
    assert first.unreachable == second.unreachable
    [problem] = first.unreachable
    assert problem.where == str(path)
    assert ("missing" if change == "moved" else "changed") in problem.problem
    # A file that somebody else wrote is theirs.
    assert path.exists() == (change == "changed")
    path.write_bytes(original)
    assert export_parquet(sqlite_store, folder) == ParquetExport(rewritten=1)
    assert {row["subject"] for row in read_rows(folder)} == {None}


def test_files_that_cannot_be_reached_are_forgotten_if_you_say_so(
    sqlite_store: Store, folder: Path
) -> None:
    sqlite_store.put_many(hourly(30))
    export_parquet(sqlite_store, folder)
    (folder / files(folder)[0]).unlink()
    sqlite_store.retire_records("acme", moment(20 * HOUR), **BY)

    assert len(export_parquet(sqlite_store, folder, forget_unreachable=True).unreachable) == 1
    assert export_parquet(sqlite_store, folder) == ParquetExport()
    assert list_ids(folder) == [record.decision_id for record in hourly(7, first=24)]


def test_an_event_that_was_changed_is_not_believed(
    sqlite_store: Store, folder: Path, tamper: Callable[..., int]
) -> None:
    sqlite_store.put_many(hourly(3))
    export_parquet(sqlite_store, folder)
    sqlite_store.erase_subject("acme", "user:ada", **BY)
    tamper("UPDATE chain_events SET event = replace(event, 'asked', 'ASKED')")

    with pytest.raises(StorageError, match="hash differs") as raised:
        export_parquet(sqlite_store, folder)
    assert raised.value.where == "acme, event 4"


# -- folders that cannot be used ---------------------------------------------------------------


def test_a_folder_of_other_files_is_left_alone(sqlite_store: Store, folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")

    with pytest.raises(ParquetError, match="holds other files"):
        export_parquet(sqlite_store, folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("tenant", ["acme", "other"])
def test_a_folder_of_another_store_is_refused(
    sqlite_store: Store, folder: Path, tmp_path: Path, tenant: str
) -> None:
    sqlite_store.put_many(hourly(3))
    export_parquet(sqlite_store, folder)
    before = list_ids(folder)
    with open_store(tmp_path / "second.db", durability="normal") as second:
        second.put_many(hourly(9, first=40, tenant=tenant))

        with pytest.raises(ParquetError, match="tenant `acme` are those of another store"):
            export_parquet(second, folder)
    assert list_ids(folder) == before


def test_a_shorter_chain_is_another_store(
    sqlite_store: Store, folder: Path, tmp_path: Path
) -> None:
    sqlite_store.put_many(hourly(3))
    export_parquet(sqlite_store, folder)
    with open_store(tmp_path / "second.db", durability="normal") as second:
        second.put(hourly(1)[0])

        with pytest.raises(ParquetError, match="another store"):
            export_parquet(second, folder)


def test_a_tenant_that_is_not_there_is_named(sqlite_store: Store, folder: Path) -> None:
    sqlite_store.put(make_record())

    with pytest.raises(ParquetError, match="there is no tenant `acne`") as raised:
        export_parquet(sqlite_store, folder, tenant="acne")
    assert raised.value.help == "there are acme"


def test_an_empty_store_makes_an_empty_folder(sqlite_store: Store, folder: Path) -> None:
    assert export_parquet(sqlite_store, folder) == ParquetExport()


def test_a_manifest_of_a_newer_demur_is_refused(sqlite_store: Store, folder: Path) -> None:
    sqlite_store.put(make_record())
    export_parquet(sqlite_store, folder)
    path = folder / "_demur/acme.json"
    path.write_text(path.read_text().replace("decision_parquet.v1", "decision_parquet.v9"))

    with pytest.raises(ParquetError, match="not a manifest"):
        export_parquet(sqlite_store, folder)


@pytest.mark.parametrize("path", ["../notes.txt", "/etc/passwd", "day=1/tenant=../1-1.parquet/x"])
def test_a_manifest_reaches_no_file_outside_of_the_folder(
    sqlite_store: Store, folder: Path, path: str
) -> None:
    sqlite_store.put(make_record())
    export_parquet(sqlite_store, folder)
    manifest = folder / "_demur/acme.json"
    document = json.loads(manifest.read_text())
    document["removed"] = [{**document["files"][0], "path": path}]
    manifest.write_text(json.dumps(document))

    with pytest.raises(ParquetError, match="a manifest does not name"):
        export_parquet(sqlite_store, folder)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_two_runs_do_not_write_to_one_folder(sqlite_store: Store, folder: Path) -> None:
    with (
        parquet_folder._open_folder(folder),
        pytest.raises(ParquetError, match="another process is writing"),
    ):
        export_parquet(sqlite_store, folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(sqlite_store: Store, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(0o500)

    with pytest.raises(ParquetError, match="cannot write: permission denied"):
        export_parquet(sqlite_store, tmp_path / "locked" / "decisions")


def test_a_file_in_place_of_the_folder_is_named(sqlite_store: Store, tmp_path: Path) -> None:
    (tmp_path / "decisions").write_text("")

    with pytest.raises(ParquetError, match="cannot write: file exists"):
        export_parquet(sqlite_store, tmp_path / "decisions")


def test_a_row_that_is_no_record_is_named(
    sqlite_store: Store, folder: Path, tamper: Callable[..., int]
) -> None:
    sqlite_store.put_many(hourly(3))
    tamper("UPDATE decision_records SET record = '{' WHERE seq = 2")

    with pytest.raises(StorageError, match="not a decision record"):
        export_parquet(sqlite_store, folder)

    tamper("UPDATE decision_records SET record = '{}', created_at = 'soon' WHERE seq = 2")
    with pytest.raises(StorageError, match="not a decision record"):
        export_parquet(sqlite_store, folder)


def test_a_time_that_is_none_is_named(
    sqlite_store: Store, folder: Path, tamper: Callable[..., int]
) -> None:
    sqlite_store.put_many(hourly(3))
    tamper("UPDATE decision_records SET created_at = 'soon' WHERE seq = 2")

    with pytest.raises(StorageError, match="not decision records"):
        export_parquet(sqlite_store, folder)


def test_without_arrow_the_error_says_how_to_get_it(
    sqlite_store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(MissingExtraError, match="`pyarrow`") as raised:
        export_parquet(sqlite_store, folder)
    assert raised.value.help == "pip install 'demur[arrow]'"
    assert not folder.exists()


def test_manifests_are_json_that_people_can_read(sqlite_store: Store, folder: Path) -> None:
    sqlite_store.put(make_record())
    export_parquet(sqlite_store, folder)

    manifest = json.loads((folder / "_demur/acme.json").read_text())
    assert manifest["schema_version"] == "decision_parquet.v1"
    assert manifest["files"][0]["rows"] == 1

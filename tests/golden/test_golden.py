"""Stores, packs, grants and digests of earlier engines stay valid, byte for byte.

No name on the wire may change: digests are taken over field names. The files in
`engine_0.1.0/` are never written again.
"""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from golden.write_store import ED25519, write
from support.gates import KEY, POLICY, RING

from demur.audit.pack import read_line, read_pack, write_line, write_pack
from demur.audit.replay import check_heads, replay_pack
from demur.audit.report import export_pack
from demur.canonical import canonical_bytes, digest_of_bytes
from demur.grants import KeyRing, check_grant
from demur.model.grant import Grant
from demur.store.opening import open_store
from demur.store.rows import ChainHead
from demur.store.store import Store
from demur.store.verify import verify_chain
from demur.version import ENGINE_VERSION

FOLDER = Path(__file__).parent / "engine_0.1.0"
CURRENT = FOLDER.with_name(f"engine_{ENGINE_VERSION}")
DIGESTS = json.loads((FOLDER / "digests.json").read_text())
LINES = (FOLDER / "records.jsonl").read_bytes().splitlines()
HEADS = [ChainHead(*head) for head in DIGESTS["heads"]]
ERASED = 1


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    shutil.copy(FOLDER / "demur.db", tmp_path / "demur.db")
    with open_store(tmp_path / "demur.db") as opened:
        yield opened


def test_the_chains_of_the_store_hold(store: Store) -> None:
    verification = verify_chain(store.backend, heads=HEADS)

    assert verification.breaks == ()
    assert (verification.records, verification.erased) == (len(LINES), ERASED)
    assert store.list_heads() == HEADS


def test_each_record_is_exported_as_the_same_line(store: Store) -> None:
    assert [write_line(record) for record in store.find_records()] == LINES


@pytest.mark.parametrize("line", LINES, ids=lambda line: json.loads(line)["record"]["decision_id"])
def test_each_line_reads_to_a_record_that_is_written_alike(line: bytes) -> None:
    assert write_line(read_line(line)) == line


def test_each_decision_is_packed_to_the_same_bytes(store: Store) -> None:
    digests = {}
    for record in store.find_records():
        if record.decision_id in DIGESTS["packs"] and record.personal is not None:
            digests[record.decision_id] = digest_of_bytes(write_pack(export_pack(store, record)))

    assert len(digests) == len(DIGESTS["packs"]) - ERASED
    assert digests.items() <= DIGESTS["packs"].items()


def test_each_decision_replays_to_the_same_record(store: Store) -> None:
    for record in store.find_records():
        if record.personal is None:
            continue
        result = replay_pack(read_pack(write_pack(export_pack(store, record))))

        assert result.differences == ()
        assert result.replayed.reason_codes == record.reason_codes


@pytest.mark.parametrize("path", sorted((FOLDER / "packs").iterdir()), ids=lambda path: path.stem)
def test_each_pack_replays_and_is_written_alike(path: Path) -> None:
    raw = path.read_bytes()
    pack = read_pack(raw)

    assert replay_pack(pack).same
    assert write_pack(pack) == raw
    assert check_heads(pack.record, HEADS) is not None


def test_each_grant_verifies_and_is_written_alike() -> None:
    raw = (FOLDER / "grants.json").read_bytes()
    grants = msgspec.json.decode(raw, type=list[Grant])
    keys = KeyRing([KEY.trusted_key(), ED25519.trusted_key()])
    now = datetime(2026, 11, 15, 12, tzinfo=UTC)

    assert [check_grant(grant, keys=keys, now=now) for grant in grants] == [None, None]
    assert check_grant(grants[1], keys=RING, now=now) == "unknown_key"
    assert canonical_bytes(msgspec.to_builtins(grants)) == raw


def test_each_digest_comes_out_again() -> None:
    assert POLICY.digest == DIGESTS["policy"]
    value = {"b": [1, 2.5, "é"], "a": None, "n": 20.0}
    assert digest_of_bytes(canonical_bytes(value)) == DIGESTS["canonical"]


@pytest.mark.skipif(not CURRENT.exists(), reason="this engine has no files yet")
def test_the_same_engine_writes_the_same_files(tmp_path: Path) -> None:
    write(tmp_path / "again")

    for path in sorted(CURRENT.rglob("*")):
        if path.is_file() and path.name != "demur.db":
            written = tmp_path / "again" / path.relative_to(CURRENT)
            assert written.read_bytes() == path.read_bytes()

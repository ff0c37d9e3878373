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


class GoldenFolder:
    """The files that one engine wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digests = json.loads((path / "digests.json").read_text())
        self.lines = (path / "records.jsonl").read_bytes().splitlines()
        self.heads = [ChainHead(*head) for head in self.digests["heads"]]


FOLDERS = [GoldenFolder(path) for path in sorted(Path(__file__).parent.glob("engine_*"))]
ERASED = 1


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.path.name)
def folder(request: pytest.FixtureRequest) -> GoldenFolder:
    found: GoldenFolder = request.param
    return found


@pytest.fixture
def store(folder: GoldenFolder, tmp_path: Path) -> Iterator[Store]:
    shutil.copy(folder.path / "demur.db", tmp_path / "demur.db")
    with open_store(tmp_path / "demur.db") as opened:
        yield opened


def test_the_chains_of_the_store_hold(folder: GoldenFolder, store: Store) -> None:
    verification = verify_chain(store.backend, heads=folder.heads)

    assert verification.breaks == ()
    assert (verification.records, verification.erased) == (len(folder.lines), ERASED)
    # The erasure is an event, if need be one that was appended when this version opened the store.
    [changed] = [chain for chain in verification.chains if chain.events]
    assert [one.kind for one in changed.let_go] == ["erase"]
    before = [head for head in folder.heads if head.tenant != changed.tenant]
    assert [head for head in store.list_heads() if head.tenant != changed.tenant] == before


def test_each_record_is_exported_as_the_same_line(folder: GoldenFolder, store: Store) -> None:
    assert [write_line(record) for record in store.find_records()] == folder.lines


def test_each_line_reads_to_a_record_that_is_written_alike(folder: GoldenFolder) -> None:
    for line in folder.lines:
        assert write_line(read_line(line)) == line


def test_each_decision_is_packed_to_the_same_bytes(folder: GoldenFolder, store: Store) -> None:
    expected, digests = folder.digests["packs"], {}
    for record in store.find_records():
        if record.decision_id in expected and record.personal is not None:
            digests[record.decision_id] = digest_of_bytes(write_pack(export_pack(store, record)))

    assert len(digests) == len(expected) - ERASED
    assert digests.items() <= expected.items()


def test_each_decision_replays_to_the_same_record(store: Store) -> None:
    for record in store.find_records():
        if record.personal is None:
            continue
        result = replay_pack(read_pack(write_pack(export_pack(store, record))))

        assert result.differences == ()
        assert result.replayed.reason_codes == record.reason_codes


def test_each_pack_replays_and_is_written_alike(folder: GoldenFolder) -> None:
    for path in sorted((folder.path / "packs").iterdir()):
        raw = path.read_bytes()
        pack = read_pack(raw)

        assert replay_pack(pack).same, path.stem
        assert write_pack(pack) == raw
        assert check_heads(pack.record, folder.heads) is not None


def test_each_grant_verifies_and_is_written_alike(folder: GoldenFolder) -> None:
    raw = (folder.path / "grants.json").read_bytes()
    grants = msgspec.json.decode(raw, type=list[Grant])
    keys = KeyRing([KEY.trusted_key(), ED25519.trusted_key()])
    now = datetime(2026, 11, 15, 12, tzinfo=UTC)

    assert [check_grant(grant, keys=keys, now=now) for grant in grants] == [None, None]
    assert check_grant(grants[1], keys=RING, now=now) == "unknown_key"
    assert canonical_bytes(msgspec.to_builtins(grants)) == raw


def test_each_digest_comes_out_again(folder: GoldenFolder) -> None:
    assert POLICY.digest == folder.digests["policy"]
    value = {"b": [1, 2.5, "é"], "a": None, "n": 20.0}
    assert digest_of_bytes(canonical_bytes(value)) == folder.digests["canonical"]


def test_the_same_engine_writes_the_same_files(tmp_path: Path) -> None:
    current = Path(__file__).parent / f"engine_{ENGINE_VERSION}"
    write(tmp_path / "again")

    for path in sorted(current.rglob("*")):
        if path.is_file() and path.name != "demur.db":
            written = tmp_path / "again" / path.relative_to(current)
            assert written.read_bytes() == path.read_bytes()
    assert current.exists()

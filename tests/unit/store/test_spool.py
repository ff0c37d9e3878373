import json
import os
import stat
from pathlib import Path

import msgspec
import pytest
from support.store_records import decision_id, make_record

from demur.codes.refusal_line import parse_refusal
from demur.store.backend import StorageError, UnavailableError
from demur.store.spool import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool.jsonl")


def test_a_spooled_record_is_read_back_unchanged(spool: Spool) -> None:
    records = [make_record(1, reason="zu groß\u2028"), make_record(2, amount=None)]
    erased = msgspec.structs.replace(make_record(3), sealed=None)
    for record in (*records, erased):
        spool.add(record)

    assert spool.read() == ((*records, erased), ())
    assert all(record.seal_holds for record in spool.read().records)


def test_a_line_is_json_with_the_refusal_that_alerts_look_for(spool: Spool) -> None:
    line = spool.add(make_record(1))
    [text] = spool.path.read_text(encoding="utf-8").splitlines()
    held = json.loads(text)

    assert parse_refusal(line) == ("STORAGE_UNAVAILABLE", f"decision {decision_id(1)}")
    assert held["line"] == line
    assert held["record"]["decision_id"] == decision_id(1)
    assert held["sealed"]["requester"] == "user:ada"


def test_an_empty_spool_holds_nothing(spool: Spool) -> None:
    assert spool.read() == ((), ())
    assert not spool.path.exists()


def test_only_the_owner_can_read_it(spool: Spool) -> None:
    spool.add(make_record(1))

    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o600


def test_a_line_that_was_cut_short_is_reported_and_swallows_nothing(spool: Spool) -> None:
    spool.add(make_record(1))
    with spool.path.open("ab") as file:
        file.write(b'{"line": "REFUS')
    torn = spool.read()
    spool.add(make_record(2))
    mended = spool.read()

    assert [r.decision_id for r in torn.records] == [decision_id(1)]
    assert torn.unreadable == (2,)
    assert [r.decision_id for r in mended.records] == [decision_id(1), decision_id(2)]
    assert mended.unreadable == (2,)


def test_bytes_that_are_no_text_are_reported(spool: Spool) -> None:
    spool.path.write_bytes(b'{"line":"\xff","record":{}}\n\xff\xfe\n')

    assert spool.read() == ((), (1, 2))


def test_an_unwritable_spool_is_an_error(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "none" / "spool.jsonl")

    with pytest.raises(UnavailableError, match="cannot be written: No such file") as caught:
        spool.add(make_record(1))
    assert caught.value.where == str(spool.path)


def test_an_unreadable_spool_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        Spool(tmp_path).read()


def test_a_partly_written_line_is_an_error(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: write(file, data[:10]))
        with pytest.raises(UnavailableError, match="only part"):
            spool.add(make_record(1))
    spool.add(make_record(2))

    assert [r.decision_id for r in spool.read().records] == [decision_id(2)]

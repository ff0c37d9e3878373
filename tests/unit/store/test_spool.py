import json
import logging
import os
import stat
from pathlib import Path

import msgspec
import pytest
from support.store_records import decision_id, make_record

from demur.codes.refusal_line import parse_refusal
from demur.store.backend import StorageError, UnavailableError
from demur.store.spool import OutageLog, Spool, append_line, create_private_file


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
        with pytest.raises(UnavailableError, match="only a part"):
            spool.add(make_record(1))
    spool.add(make_record(2))

    assert [r.decision_id for r in spool.read().records] == [decision_id(2)]


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277])
def test_a_private_file_has_its_mode_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        create_private_file(tmp_path / "new")
        Spool(tmp_path / "spool.jsonl").add(make_record(1))
    finally:
        os.umask(before)

    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    with pytest.raises(FileExistsError):
        create_private_file(tmp_path / "new")


def test_a_spool_knows_whether_it_shares_a_disk(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    spool = Spool(tmp_path / "spool" / "spool.jsonl")

    assert spool.shares_disk(tmp_path / "demur.db")
    assert not spool.shares_disk(Path("/proc/version"))
    assert not spool.shares_disk(tmp_path / "none" / "demur.db")


# -- the log of an outage --------------------------------------------------------------------

FULL = UnavailableError("the disk is full", where="demur.db", help="free space")


def log_outage(
    caplog: pytest.LogCaptureFixture, spool: Spool | None, decisions: int
) -> list[tuple[str, str]]:
    """Return what is logged of an outage, and of the time after it."""
    outages = OutageLog(spool)
    with caplog.at_level(logging.INFO, "demur"):
        outages.end()
        for number in range(decisions):
            outages.add(make_record(number), FULL)
        outages.end()
        outages.end()
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_an_outage_is_logged_when_it_begins_and_when_it_ends(
    spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    begin, end = log_outage(caplog, spool, 300)

    assert begin[0] == "ERROR"
    assert begin[1].startswith(f"decision {decision_id(0)} could not be stored")
    assert begin[1].endswith("demur.db: the disk is full; free space")
    assert end[0] == "WARNING"
    assert end[1] == (
        "the store works again: demur refused 300 decisions meanwhile, and spooled 300 "
        f"in {spool.path}"
    )


def test_a_spool_that_fails_during_an_outage_is_logged_once(
    spool: Spool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = iter([True] * 5)

    def append_if_room(path: Path, line: bytes) -> None:
        if not next(room, False):
            raise OSError(28, "No space left on device")
        append_line(path, line)

    monkeypatch.setattr("demur.store.spool.append_line", append_if_room)
    begin, failed, end = (text for _, text in log_outage(caplog, spool, 50))

    assert "could not be stored" in begin
    assert "cannot spool decisions, so they are lost" in failed
    assert "refused 50 decisions meanwhile, and spooled 5" in end


def test_an_outage_without_a_spool_says_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    _, lost, end = (text for _, text in log_outage(caplog, None, 3))

    assert lost == "they are lost: the setting `spool` names a file for them"
    assert end == "the store works again: demur refused 3 decisions meanwhile, and spooled 0"

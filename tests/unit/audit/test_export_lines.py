import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.gates import opened, refund

from demur.audit.pack import assemble_record, read_line, read_lines, write_line
from demur.canonical import canonical_bytes
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.model.record import ChainLink
from demur.store.rows import GENESIS
from demur.store.spool import Spool


@pytest.fixture
def gate() -> Iterator[Gate]:
    with opened() as gate:
        yield gate


def test_a_record_is_read_back_as_it_was_written(gate: Gate) -> None:
    record = gate.decide(refund(0.000001))

    assert read_line(write_line(record)) == record


def test_a_line_is_canonical_and_its_halves_are_plain_json(gate: Gate) -> None:
    line = write_line(gate.decide(refund(400)))
    plain = json.loads(line)

    assert canonical_bytes(plain) == line
    assert plain["record"]["verdict"] == "ESCALATE"
    assert plain["sealed"]["request"]["action"]["amount"]["value"] == 400
    assert plain["chain"]["seq"] == 1


def test_an_erased_half_is_null(gate: Gate) -> None:
    record = msgspec.structs.replace(gate.decide(refund()), sealed=None)

    assert json.loads(write_line(record))["sealed"] is None
    assert read_line(write_line(record)) == record


def test_lines_of_a_spool_read_as_well(gate: Gate, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.jsonl")
    record = msgspec.structs.replace(gate.decide(refund()), chain=None)
    spool.add(record)

    assert list(read_lines(spool.path.read_bytes().splitlines())) == [record]


def test_each_bad_line_is_an_error_with_its_number(gate: Gate) -> None:
    record = gate.decide(refund())
    good = write_line(record)
    torn = good.replace(b"T-1", b"T-2")
    cheated = good.replace(b'"verdict":"ALLOW"', b'"verdict":"DENY"')

    read = list(read_lines([good, b"\n", b"{", b"[" * 100_000, torn, cheated]))

    assert read[0] == record
    errors = [error for error in read[1:] if isinstance(error, InputError)]
    assert [error.where for error in errors] == [
        "line 3",
        "line 4",
        "line 5: sealed",
        "line 6: record",
    ]


@pytest.mark.parametrize("raw", [b"{}", b"[]", b"\xff", b'{"schema_version":"v0"}', b"[" * 10**5])
def test_a_line_that_is_not_a_record_is_refused(raw: bytes) -> None:
    with pytest.raises(InputError, match="not a decision record"):
        assemble_record(raw, None, None)


def test_a_field_that_the_engine_does_not_know_is_not_passed_over(gate: Gate) -> None:
    record = gate.decide(refund())
    raw = record.open_bytes().replace(b'{"action_type"', b'{"aaa":"approved","action_type"')

    with pytest.raises(InputError, match="not written as engine"):
        assemble_record(raw, record.sealed, None)
    assert assemble_record(raw, record.sealed, None, exact=False).verdict == "ALLOW"


@pytest.mark.parametrize(
    "link",
    [
        ChainLink(seq=0, previous=GENESIS, hash=GENESIS),
        ChainLink(seq=-5, previous=GENESIS, hash=GENESIS),
        ChainLink(seq=1, previous="sha256:" + "1" * 64, hash=GENESIS),
    ],
    ids=repr,
)
def test_a_place_that_no_chain_has_is_refused(gate: Gate, link: ChainLink) -> None:
    record = gate.decide(refund())

    with pytest.raises(InputError, match="not a valid place in a chain"):
        assemble_record(record.open_bytes(), record.sealed, link)

"""Records as JSON lines, in which both halves keep the bytes that digests cover.

`record` is the open half, `sealed` the personal one (null once it was erased) and `chain` the
place of the record in its tenant's chain. Lines of a spool can be read too.
"""

from collections.abc import Iterable, Iterator

import msgspec

from demur.errors import DemurError, InputError
from demur.model.record import ChainLink, DecisionRecord
from demur.store.chain import genesis_head, link_hash
from demur.store.rows import ChainHead
from demur.version import __version__

__all__ = ["read_line", "read_lines", "assemble_record", "write_line"]


_ERASED = msgspec.Raw(b"null")


class _ExportLine(msgspec.Struct, frozen=True, kw_only=True):
    record: msgspec.Raw
    sealed: msgspec.Raw = _ERASED
    chain: ChainLink | None = None


_encode = msgspec.json.Encoder(order="sorted").encode
_decode_line = msgspec.json.Decoder(_ExportLine).decode
_decode_record = msgspec.json.Decoder(DecisionRecord).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, DemurError)


def write_line(record: DecisionRecord) -> bytes:
    """Return the record as canonical JSON without a line break."""
    sealed = _ERASED if record.sealed is None else msgspec.Raw(record.sealed)
    return _encode(
        _ExportLine(record=msgspec.Raw(record.open_bytes()), sealed=sealed, chain=record.chain)
    )


def read_line(raw: bytes, *, exact: bool = True) -> DecisionRecord:
    """Return the record in a line, checked against its seal and its link.

    `exact` refuses fields that this engine does not write, as in `assemble_record`.

    Raises:
        InputError: It is no record, or was changed; `where` is the half at fault.
    """
    try:
        line = _decode_line(raw)
    except _UNREADABLE as error:
        raise InputError(f"not a line of an export: {error}") from error
    sealed = None if line.sealed == _ERASED else bytes(line.sealed)
    return assemble_record(bytes(line.record), sealed, line.chain, exact=exact)


def read_lines(lines: Iterable[bytes]) -> Iterator[DecisionRecord | InputError]:
    """Yield the record of each line, or its error; empty lines are skipped."""
    for number, raw in enumerate(lines, start=1):
        text = raw.strip()
        if not text:
            continue
        try:
            yield read_line(text, exact=False)
        except InputError as error:
            place = f"line {number}" if error.where is None else f"line {number}: {error.where}"
            yield InputError(error.problem, where=place, help=error.help)


def assemble_record(
    raw: bytes, sealed: bytes | None, chain: ChainLink | None, *, exact: bool = True
) -> DecisionRecord:
    """Return the record built from its parts, if they belong together.

    With `exact`, the open half may hold only what this engine writes: no extra field that a
    reader would believe and a replay would ignore.

    Raises:
        InputError: They do not belong together; `where` is `record`, `sealed` or `chain`.
    """
    try:
        bare = _decode_record(raw)
        as_written = not exact or bare.open_bytes() == raw
    except _UNREADABLE as error:
        raise InputError(f"not a decision record: {error}", where="record") from error
    if not as_written:
        made_by = bare.determinism.engine_version
        problem = f"not written as engine {__version__} writes it (it says {made_by})"
        raise InputError(problem, where="record")
    record = msgspec.structs.replace(bare, sealed=sealed, chain=chain)
    _check_seal(record)
    _check_link(record, raw)
    return record


def _check_seal(record: DecisionRecord) -> None:
    if not record.seal_holds:
        problem = "not what was decided on: its digest is not the record's"
        raise InputError(problem, where="sealed")


def _check_link(record: DecisionRecord, raw: bytes) -> None:
    link = record.chain
    if link is None:
        return
    head = ChainHead(record.tenant, link.seq - 1, link.previous)
    if link.seq < 1 or (link.seq == 1 and head != genesis_head(record.tenant)):
        raise InputError("not a valid place in a chain", where="chain")
    if link_hash(head, record.decision_id, raw) != link.hash:
        raise InputError("not the record that the chain holds at this place", where="record")

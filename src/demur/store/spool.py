"""The spool: decisions that could not be stored, one canonical line each.

A line holds the whole record and the refusal line that alerts look for. So nothing is lost, and
an outage of the store shows even to a reader of logs only.
"""

import logging
import os
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.refusal_line import format_refusal
from demur.model.record import DecisionRecord
from demur.store.backend import StorageError, UnavailableError

_log = logging.getLogger("demur")
_OWNER_ONLY = 0o600
_NULL = msgspec.Raw(b"null")


class _SpoolLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line. Both halves are kept as bytes, because digests cover them."""

    line: str
    record: msgspec.Raw
    sealed: msgspec.Raw = _NULL


_encode_line = msgspec.json.Encoder(order="sorted").encode
_decode_line = msgspec.json.Decoder(_SpoolLine).decode
_decode_record = msgspec.json.Decoder(DecisionRecord).decode


class SpoolContents(NamedTuple):
    """The content of a spool; `unreadable` are the numbers of lines that a crash cut short."""

    records: tuple[DecisionRecord, ...]
    unreadable: tuple[int, ...]


class Spool:
    """The spool file at `path`; created on first use, readable by its owner only."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def add(self, record: DecisionRecord) -> str:
        """Append a record durably, and return its refusal line.

        Raises:
            StorageError: The file cannot be written either.
        """
        line = format_refusal(ReasonCode.STORAGE_UNAVAILABLE, f"decision {record.decision_id}")
        sealed = _NULL if record.sealed is None else msgspec.Raw(record.sealed)
        held = _SpoolLine(line=line, record=msgspec.Raw(record.open_bytes()), sealed=sealed)
        try:
            append_line(self.path, _encode_line(held) + b"\n")
        except OSError as error:
            problem = f"the spool cannot be written: {error.strerror or error}"
            raise UnavailableError(problem, where=str(self.path)) from error
        return line

    def read(self) -> SpoolContents:
        """Return the records in the spool, oldest first; none if there is no file.

        Raises:
            StorageError: demur cannot read the file.
        """
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return SpoolContents((), ())
        except OSError as error:
            problem = f"the spool cannot be read: {error.strerror or error}"
            raise StorageError(problem, where=str(self.path)) from error
        records, unreadable = [], []
        for number, text in enumerate(lines, start=1):
            try:
                held = _decode_line(text)
                sealed = None if bytes(held.sealed) == b"null" else bytes(held.sealed)
                records.append(msgspec.structs.replace(_decode_record(held.record), sealed=sealed))
            except (msgspec.MsgspecError, UnicodeDecodeError):
                unreadable.append(number)
        return SpoolContents(tuple(records), tuple(unreadable))

    def shares_disk(self, other: Path) -> bool:
        """Return whether the spool is on the file system of another file, or would be."""
        try:
            return self.path.parent.stat().st_dev == other.parent.stat().st_dev
        except OSError:
            return False


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file durably; a new file is readable by its owner only.

    Raises:
        OSError: It is not written, or only in part.
    """
    new = not path.exists()
    if new:
        with suppress(FileExistsError):
            create_private_file(path)
    file = os.open(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(file).st_size
        # Start a new line after one that a crash cut short.
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        written = b"\n" + line if torn else line
        if os.write(file, written) != len(written):
            raise OSError(0, "demur wrote only a part of the line")
        os.fsync(file)
    finally:
        os.close(file)
    if new:
        _sync_folder(path.parent)


def create_private_file(path: str | Path) -> None:
    """Create a file that only its owner can read and write, whatever the umask is.

    Raises:
        OSError: It exists, or cannot be created.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    try:
        os.chmod(handle if os.chmod in os.supports_fd else path, _OWNER_ONLY)  # noqa: PTH101 - a handle
    finally:
        os.close(handle)


class OutageLog:
    """Spools the decisions of an outage, and logs its begin and its end with counts.

    A log with one line for each refused decision would help to fill the disk.
    """

    def __init__(self, spool: Spool | None) -> None:
        self._spool = spool
        self._lock = Lock()
        self._refused = 0
        self._spooled = 0

    def add(self, record: DecisionRecord, error: StorageError) -> None:
        """Spool a decision that could not be stored because of `error`."""
        spool_error: StorageError | None = None
        try:
            if self._spool is not None:
                self._spool.add(record)
        except StorageError as raised:
            spool_error = raised
        with self._lock:
            begins = self._refused == 0
            # Say once if the spool fails, too: at the begin, or when it does.
            fails = spool_error is not None and (begins or self._refused == self._spooled)
            self._refused += 1
            self._spooled += self._spool is not None and spool_error is None
        reason = _one_line(error)
        if begins:
            said = "decision %s could not be stored; such decisions are refused: %s"
            _log.error(said, record.decision_id, reason)
            if self._spool is None:
                _log.error("they are lost: the setting `spool` names a file for them")
        if fails and spool_error is not None:
            _log.error("cannot spool decisions, so they are lost: %s", _one_line(spool_error))

    def end(self) -> None:
        """Log the end of an outage, if there is one."""
        if not self._refused:
            return
        with self._lock:
            refused, spooled = self._refused, self._spooled
            self._refused = self._spooled = 0
        if refused:
            place = "" if self._spool is None else f" in {self._spool.path}"
            _log.warning(
                "the store works again: demur refused %d decisions meanwhile, and spooled %d%s",
                refused,
                spooled,
                place,
            )


def _one_line(error: StorageError) -> str:
    return str(error).replace("\n  help: ", "; ")


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""The rows of a run by id; only their offsets are in memory."""

from collections.abc import Iterator
from typing import BinaryIO, Self

import msgspec

from demur.evals.run_folder import ROWS_FILE, EvalRun
from demur.evals.run_manifest import RunError
from demur.evals.suite_row import EvalRow

__all__ = ["RowIndex"]


class RowIndex:
    """Finds rows of a run by id; only their offsets are in memory. Close it, or use `with`."""

    def __init__(self, run: EvalRun) -> None:
        self._path = run.folder / ROWS_FILE
        try:
            self._file: BinaryIO = self._path.open("rb")
        except OSError as error:
            reason = str(error.strerror or error).lower()
            raise RunError(f"cannot read the rows: {reason}", where=str(self._path)) from error
        try:
            self._offsets = dict(self._index_rows())
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, row_id: object) -> bool:
        return row_id in self._offsets

    def __iter__(self) -> Iterator[EvalRow]:
        return (self._read_row(place) for place in self._offsets.values())

    def __getitem__(self, row_id: str) -> EvalRow:
        """Return the row with an id.

        Raises:
            RunError: The run has no such row.
        """
        place = self._offsets.get(row_id)
        if place is None:
            raise RunError(
                f"there is an answer to `{row_id}`, which is not a row of this run",
                where=str(self._path.parent),
                help="do not mix the files of two runs",
            )
        return self._read_row(place)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _index_rows(self) -> Iterator[tuple[str, int]]:
        place = 0
        for line in self._file:
            yield self._decode_row(line).id, place
            place += len(line)

    def _read_row(self, place: int) -> EvalRow:
        self._file.seek(place)
        return self._decode_row(self._file.readline())

    def _decode_row(self, line: bytes) -> EvalRow:
        try:
            return _indexed_row_decoder.decode(line)
        except msgspec.MsgspecError as error:
            reason = str(error)[:1].lower() + str(error)[1:]
            raise RunError(f"not a row: {reason}", where=str(self._path)) from error


_indexed_row_decoder = msgspec.json.Decoder(EvalRow)

"""Count the refusals in one piece of work, whatever it is; what cannot be read is told."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

from demur.errors import DemurError
from demur.triage.counts import RefusalCounts, UnreadFile
from demur.triage.inputs import STDIN, LogPiece
from demur.triage.options import TriageOptions
from demur.triage.scan import scan_range, scan_stream

__all__ = ["ReportBytes", "scan_piece"]

ReportBytes = Callable[[int], None]


def scan_piece(
    piece: LogPiece,
    options: TriageOptions,
    progress: ReportBytes | None = None,
    stdin: IO[bytes] | None = None,
    *,
    folder: str = "",
) -> RefusalCounts:
    """Return the counts of a piece, or the reason why it could not be read.

    Relative paths start at `folder`, by default the current one.
    """
    path = os.path.join(folder, piece.path)  # noqa: PTH118 - a path may hold what pathlib refuses
    try:
        if piece.high is not None:
            return scan_range(
                path, piece.low, piece.high, options, name=piece.path, progress=progress
            )
        if piece.path == STDIN:
            source = sys.stdin.buffer if stdin is None else stdin
            return scan_stream(cast("io.RawIOBase", source), STDIN, options, progress=progress)
        with Path(path).open("rb", buffering=0) as file:
            watched = file if progress is None else _ProgressSource(file, progress)
            return scan_stream(cast("io.RawIOBase", watched), piece.path, options)
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
    except DemurError as error:
        reason = error.problem
    return RefusalCounts(unread=(UnreadFile(piece.path, reason),))


class _ProgressSource:
    """Reports the bytes read from a compressed file, to compare with its size on disk."""

    def __init__(self, file: io.FileIO, progress: ReportBytes) -> None:
        self._file = file
        self._progress = progress

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer."""
        got = self._file.readinto(buffer) or 0
        self._progress(got)
        return got

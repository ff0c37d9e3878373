"""Split a byte stream into lines of bounded length."""

__all__ = ["MAX_MESSAGE_BYTES", "LineSplitter"]

MAX_MESSAGE_BYTES = 16 * 1024 * 1024


class LineSplitter:
    """Splits data into lines; a line that is too long becomes None and is not buffered."""

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._skips = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that `data` completes, without line ends and blank lines."""
        done: list[bytes | None] = []
        *ended, last = data.split(b"\n")
        for piece in ended:
            self._append_piece(piece)
            self._finish_line(done)
        self._append_piece(last)
        return done

    def end(self) -> list[bytes | None]:
        """Return the last line, if the stream ended within one."""
        done: list[bytes | None] = []
        self._finish_line(done)
        return done

    def _append_piece(self, piece: bytes) -> None:
        if self._skips:
            return
        if len(self._rest) + len(piece) > self._max_bytes:
            self._rest.clear()
            self._skips = True
        else:
            self._rest += piece

    def _finish_line(self, done: list[bytes | None]) -> None:
        line = bytes(self._rest).strip()
        if self._skips:
            done.append(None)
        elif line:
            done.append(line)
        self._rest.clear()
        self._skips = False

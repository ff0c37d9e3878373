"""Split a byte stream into server-sent events of bounded length."""

from demur.integrations.mcp_proxy.lines import MAX_MESSAGE_BYTES

__all__ = ["EventSplitter"]


class EventSplitter:
    """Splits data into events; an event that is too long becomes None.

    Comments, priming events and events of another name than `message` are skipped.
    """

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._name = b""
        self._after_return = False

    def feed(self, piece: bytes) -> list[bytes | None]:
        """Return the data of the events that `piece` completes."""
        # A line ends with CR, LF or both; a pair may be split between two pieces.
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_return = piece.endswith(b"\r")
        done: list[bytes | None] = []
        *ended, last = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for part in ended:
            self._append_part(part)
            self._handle_line(bytes(self._rest), done)
            self._rest.clear()
        self._append_part(last)
        return done

    def _append_part(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            self._data.clear()
        else:
            self._rest += part

    def _handle_line(self, line: bytes, done: list[bytes | None]) -> None:
        if line:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data" and self._size <= self._max_bytes:
                self._data.append(value)
            elif name == b"event":
                self._name = value
            return
        if self._size > self._max_bytes:
            # The skipped part may contain blank lines; resume at the next one.
            done.append(None)
        elif any(self._data) and self._name in {b"", b"message"}:
            # In JSON a line break between tokens equals a blank.
            done.append(b" ".join(self._data))
        self._data.clear()
        self._size = 0
        self._name = b""

"""Lines out of a stream of bytes: each one a message, none longer than may be."""

__all__ = ["LONGEST", "Lines"]

LONGEST = 16 * 1024 * 1024


class Lines:
    """Cuts what is fed to it into lines; a line that is too long becomes None.

    Of a line that is too long nothing is kept, however much of it comes.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._rest = bytearray()
        self._skips = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that `data` completes, without their ends; blank ones are left out."""
        done: list[bytes | None] = []
        *ended, last = data.split(b"\n")
        for piece in ended:
            self._take(piece)
            self._finish(done)
        self._take(last)
        return done

    def end(self) -> list[bytes | None]:
        """Return the last line, if the stream ended within one."""
        done: list[bytes | None] = []
        self._finish(done)
        return done

    def _take(self, piece: bytes) -> None:
        if self._skips:
            return
        if len(self._rest) + len(piece) > self._longest:
            self._rest.clear()
            self._skips = True
        else:
            self._rest += piece

    def _finish(self, done: list[bytes | None]) -> None:
        line = bytes(self._rest).strip()
        if self._skips:
            done.append(None)
        elif line:
            done.append(line)
        self._rest.clear()
        self._skips = False

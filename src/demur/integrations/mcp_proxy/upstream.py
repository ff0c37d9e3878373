"""What a proxy needs of those it stands between, whichever way they are reached."""

from collections.abc import AsyncIterator
from typing import Protocol

__all__ = ["Peer", "Upstream"]


class Peer(Protocol):
    """One side: lines go in, lines come out until it is gone."""

    async def send(self, line: bytes) -> None:
        """Hand over a message; one for a server that is gone is lost.

        Raises:
            BrokenPipeError: Nobody reads any more.
        """

    def lines(self) -> AsyncIterator[bytes | None]:
        """Yield what it says, None for a line that is too long; ends when it is gone."""


class Upstream(Peer, Protocol):
    """The server's side, which the proxy ends."""

    async def close(self) -> int:
        """End it, and return the exit status that tells how it ended."""

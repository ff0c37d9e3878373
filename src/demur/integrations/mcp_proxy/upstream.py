"""The two sides of a proxy, independent of the transport."""

from collections.abc import AsyncIterator
from typing import Protocol

__all__ = ["Peer", "Upstream"]


class Peer(Protocol):
    """One side of the proxy: it sends and receives lines."""

    async def send(self, line: bytes) -> None:
        """Send a message; one for a server that is gone is lost.

        Raises:
            BrokenPipeError: The peer is gone.
        """

    def lines(self) -> AsyncIterator[bytes | None]:
        """Yield its lines until it is gone; None for a line that is too long."""


class Upstream(Peer, Protocol):
    """The server's side, which the proxy closes."""

    async def close(self) -> int:
        """Close it, and return its exit status."""

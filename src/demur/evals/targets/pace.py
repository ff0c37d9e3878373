"""A limit on requests a second: they are spread evenly, and wait for their turn."""

import asyncio
import time

__all__ = ["RequestPace"]


class RequestPace:
    """Spaces requests evenly, at most `per_second` in a second; None means no limit."""

    def __init__(self, per_second: float | None) -> None:
        self._gap = 0.0 if per_second is None else 1 / per_second
        self._next = 0.0

    async def wait_turn(self) -> None:
        """Wait until a request may be sent."""
        if not self._gap:
            return
        now = time.monotonic()
        mine = max(self._next, now)
        self._next = mine + self._gap
        await asyncio.sleep(mine - now)

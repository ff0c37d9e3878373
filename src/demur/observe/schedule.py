"""Work that a service repeats in a thread, such as anchors and what is due for approvals."""

import logging
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from demur.errors import DemurError

_log = logging.getLogger("demur")


class Schedule:
    """Does some work at once and then every `every_s` seconds, until it is stopped.

    An outage is logged when it begins and when it ends, in these two `words`, and does not end the
    schedule. What the work returns is logged with the end of an outage.
    """

    def __init__(
        self,
        work: Callable[[], Any],
        every_s: float,
        *,
        name: str,
        words: tuple[str, str],
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._work = work
        self._every_s = every_s
        self._name = name
        self._words = words
        self._stopped = Event()
        self._wait = self._stopped.wait if wait is None else wait
        self._failed = False

    def start(self) -> None:
        """Start to work, in a thread."""
        Thread(target=self.run, name=self._name, daemon=True).start()

    def stop(self) -> None:
        """Stop before the next time."""
        self._stopped.set()

    def run(self) -> None:
        """Work until it is stopped."""
        while True:
            self._run_once()
            if self._wait(self._every_s):
                return

    def _run_once(self) -> None:
        begins, ends = self._words
        try:
            done = self._work()
        except DemurError as error:
            if not self._failed:
                reason = str(error).replace("\n  help: ", "; ")
                _log.error("%s: %s", begins, reason)
            self._failed = True
            return
        if self._failed:
            _log.warning("%s: %s", ends, done)
        self._failed = False

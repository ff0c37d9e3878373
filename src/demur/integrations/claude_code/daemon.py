"""The hook daemon: it keeps gate and guards loaded and judges for hooks that ask.

There is one daemon for each set of options. It ends when no hook has asked for a while, and as
soon as a file changes that it was opened from: the next hook judges by itself and starts another.
"""

import json
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from demur.integrations.claude_code.daemon_client import receive_all
from demur.integrations.claude_code.runtime import HookJudge, run_hook_with

_MAX_REQUEST_BYTES = 64_000_000
_CLIENT_TIMEOUT_S = 30
_POLL_S = 0.5


class FreshHookJudge(HookJudge, Protocol):
    """Judges for hooks, as long as it is fresh."""

    @property
    def is_fresh(self) -> bool:
        """Whether its files are unchanged since it was opened."""


def serve_daemon(path: Path, judge: FreshHookJudge, *, idle_s: float) -> None:
    """Answer hooks at `path` until idle, or until the socket is gone.

    Only one process may do so: see `hold_daemon_lock`.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        # It gets its name when it already listens, so that a hook that sees it can connect.
        bound = path.with_suffix(".new")
        bound.unlink(missing_ok=True)
        listener.bind(str(bound))
        bound.chmod(0o600)
        listener.settimeout(_POLL_S)
        listener.listen(64)
        bound.replace(path)
        _HookDaemon(judge, listener, path, idle_s).run()


class _HookDaemon:
    def __init__(
        self, judge: FreshHookJudge, listener: socket.socket, path: Path, idle_s: float
    ) -> None:
        self._judge = judge
        self._listener = listener
        self._path = path
        self._own = path.stat().st_ino
        self._idle_s = idle_s
        self._threads: list[threading.Thread] = []

    def run(self) -> None:
        last = time.monotonic()
        while time.monotonic() - last < self._idle_s and self._owns_socket():
            try:
                line, _ = self._listener.accept()
            except TimeoutError:
                continue
            last = time.monotonic()
            if not self._judge.is_fresh:
                line.close()
                break
            self._threads = [one for one in self._threads if one.is_alive()]
            thread = threading.Thread(target=self._answer_client, args=(line,))
            self._threads.append(thread)
            thread.start()
        # Stop listening first, so that later hooks fail at once instead of waiting.
        if self._owns_socket():
            self._path.unlink(missing_ok=True)
        self._listener.close()
        for thread in self._threads:
            thread.join(_CLIENT_TIMEOUT_S)

    def _owns_socket(self) -> bool:
        """Return whether the socket is still this daemon's own."""
        try:
            return self._path.stat().st_ino == self._own
        except OSError:
            return False

    def _answer_client(self, line: socket.socket) -> None:
        with line, suppress(OSError, ValueError):
            line.settimeout(_CLIENT_TIMEOUT_S)
            project, _, raw = receive_all(line, _MAX_REQUEST_BYTES).partition(b"\n")
            answer = run_hook_with(raw, self._judge, str(json.loads(project)))
            line.sendall(json.dumps(list(answer)).encode())

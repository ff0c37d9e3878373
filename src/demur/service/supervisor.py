"""Run the service: in this process, or in several workers on one socket.

The supervisor starts workers, replaces those that die, and stops them together.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from demur.errors import InputError
from demur.gate.clock import Clock, system_clock
from demur.gate.config import Config, open_configured_store, open_gate
from demur.listener import listener_url
from demur.service.sample import has_sample, make_sample
from demur.service.server import bind_listener, handle_stop_signals, serve
from demur.service.settings import ServiceSettings
from demur.service.worker import RATES_VARIABLE, make_app, require_keys

_TICK_S = 0.1
# A worker that ends sooner than this counts as failed to start.
_MIN_LIFETIME_S = 5.0
_MAX_FAILURES = 3
_METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class Supervisor:
    """Keeps workers running. They end with it, even if it crashes."""

    def __init__(self, config: Path, settings: ServiceSettings) -> None:
        if sys.platform == "win32":
            raise InputError("this system supports only one worker", where="workers")
        self._config = config
        self._settings = settings
        self._workers: dict[subprocess.Popen[bytes], float] = {}
        self._failures = 0
        self._stopped = 0

    def run(self, on_started: Callable[[str], None] | None = None) -> None:
        """Serve until stopped; `on_started` is called with the address once a worker listens.

        Raises:
            InputError: The address cannot be bound, or workers cannot start.
        """
        with (
            contextlib.closing(bind_listener(self._settings)) as listener,
            tempfile.TemporaryDirectory(prefix="demur-metrics-") as shared,
            handle_stop_signals(lambda *_: self.stop()),
            _liveness_pipe() as alive,
        ):
            rates = str(Path(shared) / "rates")
            variables = {_METRICS_VARIABLE: shared, **os.environ, RATES_VARIABLE: rates}
            try:
                ready = self._start_worker(listener, alive, variables)
                while len(self._workers) < self._settings.workers:
                    os.close(self._start_worker(listener, alive, variables))
                self._announce_address(ready, listener, on_started)
                self._replace_dead_workers(
                    lambda: os.close(self._start_worker(listener, alive, variables))
                )
            finally:
                self._end_workers()

    def stop(self) -> None:
        """Have all workers finish; a second call stops them at once."""
        self._stopped += 1
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError):
                worker.send_signal(signal.SIGTERM)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.pid for worker in self._workers]

    def _start_worker(self, listener: socket.socket, alive: int, variables: dict[str, str]) -> int:
        """Start a worker; return a pipe that is readable once the worker listens."""
        ready, report = os.pipe()
        numbers = (listener.fileno(), alive, report)
        settings = msgspec.json.encode(self._settings).decode()
        # `-P`: never import from the folder that the service was started in.
        command = [sys.executable, "-P", "-m", "demur.service.worker", str(self._config), settings]
        try:
            # In a session of its own: the supervisor gets Ctrl-C, and passes it on once.
            worker = subprocess.Popen(  # noqa: S603 - our own module
                [*command, *map(str, numbers)],
                pass_fds=numbers,
                env=variables,
                start_new_session=True,
            )
        finally:
            os.close(report)
        self._workers[worker] = time.monotonic()
        return ready

    def _announce_address(
        self, ready: int, listener: socket.socket, on_started: Callable[[str], None] | None
    ) -> None:
        try:
            while not select.select([ready], [], [], _TICK_S)[0]:
                if self._stopped:
                    return
            # An empty read means that the worker died.
            listens = bool(os.read(ready, 1))
        finally:
            os.close(ready)
        if listens and on_started is not None:
            on_started(listener_url(listener))

    def _replace_dead_workers(self, start: Callable[[], None]) -> None:
        """Replace workers that die, until stopped."""
        while not self._stopped:
            for worker in [one for one in self._workers if one.poll() is not None]:
                brief = time.monotonic() - self._workers.pop(worker) < _MIN_LIFETIME_S
                self._failures = self._failures + 1 if brief else 0
                if self._failures >= _MAX_FAILURES:
                    raise InputError("the workers exit right after they start", where="workers")
                start()
            time.sleep(_TICK_S)

    def _end_workers(self) -> None:
        if not self._stopped:
            self.stop()
        wait_s = self._settings.drain_s + self._settings.grace_s + _MIN_LIFETIME_S
        deadline = time.monotonic() + wait_s
        for worker in self._workers:
            try:
                worker.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


@contextlib.contextmanager
def _liveness_pipe() -> Iterator[int]:
    """Yield the read end of a pipe that closes when this process ends."""
    read, write = os.pipe()
    try:
        yield read
    finally:
        os.close(read)
        os.close(write)


def run_service(
    path: Path,
    config: Config,
    settings: ServiceSettings,
    *,
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serve until stopped; `on_started` is called with the address once the service listens.

    Raises:
        InputError: A setting is invalid, the address cannot be bound, or other machines can
            reach it and there is no key.
    """
    if settings.workers == 1:
        serve(make_app(config, settings), settings, on_started=on_started)
        return
    # Check here, so that an error is reported once and not by every worker.
    with open_gate(config) as gate:
        require_keys(gate, settings)
    Supervisor(path.resolve(), settings).run(on_started)


def add_sample(config: Config, clock: Clock = system_clock) -> int:
    """Store the sample decisions of one day, unless there are some; return how many."""
    # Sample decisions need not survive a power cut.
    store = open_configured_store(msgspec.structs.replace(config, durability="normal"))
    if store is None:
        return 0
    with store:
        return 0 if has_sample(store) else make_sample(store, clock())

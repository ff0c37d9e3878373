"""One worker: a gate and a service from a settings file, and the application around them.

`demur serve` starts it; so does any server of ASGI applications that is given
`demur.service.worker:app` as a factory, with the settings file named by `DEMUR_CONFIG`.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock, Thread

import msgspec
from starlette.applications import Starlette

from demur.codes.loading import default_registry
from demur.enforce.history import CallHistories, FileHistories, TenantHistories
from demur.errors import DemurError, InputError
from demur.gate.clock import Entropy, system_entropy
from demur.gate.config import Config, database_path, find_config, load_config, open_gate
from demur.gate.gate import Gate
from demur.gate.rate import open_limiter
from demur.grants.keys import read_signing_key
from demur.listener import is_loopback
from demur.observe.anchoring import AnchorSchedule
from demur.observe.approval_notices import NoticeDelivery
from demur.observe.metrics import Metrics
from demur.observe.schedule import Schedule
from demur.service.access import open_access_log
from demur.service.app import build_app
from demur.service.authentication import has_active_person, has_valid_key
from demur.service.dashboard import page_routes
from demur.service.heavy_work import WorkSetup
from demur.service.limits import SharedRateBuckets
from demur.service.routes.checks import warm_guards
from demur.service.sample import has_sample
from demur.service.server import ApiServer
from demur.service.service import Service
from demur.service.settings import ServiceSettings, read_settings

_MAX_HISTORY_BYTES = 256 << 10
# The supervisor names the file of the rates that its workers share.
RATES_VARIABLE = "DEMUR_SHARED_RATES"
_APPROVALS_EVERY_S = 5.0
_NOTICES_EVERY_S = 1.0
_SWITCH_INTERVAL_S = 0.0005


class RandomBuffer:
    """Hands out random bytes that were read in large blocks. Safe to share between threads.

    The system call for random bytes releases the interpreter lock, and a busy thread gives it
    back to the event loop only after milliseconds.
    """

    def __init__(self, source: Entropy = system_entropy, *, size: int = 4096) -> None:
        self._source = source
        self._size = size
        self._buffer = b""
        self._position = 0
        self._lock = Lock()

    def __call__(self, count: int) -> bytes:
        """Return bytes that are handed out only once."""
        with self._lock:
            # INVARIANT: no random byte is handed out twice.
            if self._position + count > len(self._buffer):
                self._buffer, self._position = self._source(max(self._size, count)), 0
            taken = self._buffer[self._position : self._position + count]
            self._position += count
            return taken


def app() -> Starlette:
    """Return the application that the settings file describes.

    Raises:
        InputError: The file is missing or invalid.
    """
    path = find_config()
    if path is None:
        raise InputError(
            "no settings file for the service",
            help="name the file by DEMUR_CONFIG; `demur init --agent` makes one",
        )
    config = load_config(path)
    return make_app(config, read_settings(config.service))


def make_app(config: Config, settings: ServiceSettings) -> Starlette:
    """Return the application; its gate is opened here and closed with it.

    Raises:
        InputError: Other machines can reach it, and there is no key; or the key that signs anchors
            cannot be read.
    """
    # Threads that work hand the interpreter back to the event loop sooner.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    if settings.access_log:
        open_access_log()
    metrics = Metrics(default_registry(*config.registries))
    gate = open_gate(config, sinks=(metrics.count_decision,), entropy=RandomBuffer())
    try:
        require_keys(gate, settings)
        schedule = _open_schedule(gate, settings)
        sample = gate.store is not None and has_sample(gate.store)
        histories = _open_histories(config) if settings.workers > 1 else None
        buckets = _open_buckets(settings)
        service = Service(
            gate,
            settings,
            guards=config.guards,
            people=config.people,
            histories=histories,
            metrics=metrics,
            limiter=open_limiter(settings.limiter) if settings.limiter else None,
            buckets=buckets,
            work=WorkSetup(config.guards, tuple(config.registries), config),
            sample=sample,
        )
    except BaseException:
        gate.close()
        raise
    if schedule is not None:
        service.on_close(schedule.stop)
        schedule.start()
    if gate.store is not None:
        for repeated in _open_approval_schedules(service, metrics):
            service.on_close(repeated.stop)
            repeated.start()
    service.on_close(gate.close)
    if buckets is not None:
        service.on_close(buckets.close)
    Thread(target=_warm_up, args=(service,), daemon=True).start()
    return build_app(service, page_routes(service))


def _open_schedule(gate: Gate, settings: ServiceSettings) -> AnchorSchedule | None:
    if not settings.anchor or gate.store is None:
        return None
    key = read_signing_key(Path(settings.anchor_key))
    return AnchorSchedule(gate.store, key, settings.anchor, settings.anchor_every_s)


def _open_buckets(settings: ServiceSettings) -> SharedRateBuckets | None:
    """Return the rates that the workers of a supervisor share; None without one."""
    path = os.environ.get(RATES_VARIABLE)
    if path is None or settings.workers == 1:
        return None
    return SharedRateBuckets(Path(path), settings.rate, settings.burst)


def _open_approval_schedules(service: Service, metrics: Metrics) -> Iterator[Schedule]:
    """Yield what expires and escalates requests for approval, and what sends notices of them."""

    def run_due() -> str:
        return f"{len(service.approvals.run_due())} steps"

    words = ("requests for approval cannot be brought up to date", "they are up to date again")
    yield Schedule(run_due, _APPROVALS_EVERY_S, name="demur-approvals", words=words)
    gate = service.gate
    if gate.approvals.webhook:
        notices = NoticeDelivery(
            service.store,
            gate.registry,
            gate.approvals,
            clock=service.clock,
            count=metrics.count_notice,
        )
        words = ("requests for approval cannot be read", "they are read again")
        yield Schedule(notices.deliver_due, _NOTICES_EVERY_S, name="demur-notices", words=words)


def _open_histories(config: Config) -> CallHistories:
    """Return histories of tool calls that the workers of this machine share.

    They lie in files that only their owner can read: beside the store, if that is a file.
    """

    def digest(text: str) -> str:
        return sha256(text.encode()).hexdigest()[:16]

    path = database_path(config)
    if path is None:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(base) / "demur" / "service" / digest(config.store)
    folder = path.with_name(f"{path.name}.runs")

    def open_histories(tenant: str) -> FileHistories:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileHistories(folder / digest(tenant), max_bytes=_MAX_HISTORY_BYTES)

    return TenantHistories(open_histories)


def _warm_up(service: Service) -> None:
    """Start processes, load tallies, index words and compile rules, so that no call waits."""
    service.heavy_pool.start()
    store = service.gate.store
    if store is not None:
        now = service.clock()
        with suppress(DemurError):
            store.read_tallies(None, now, now)
            store.update_search()
    warm_guards(service)


def require_keys(gate: Gate, settings: ServiceSettings) -> None:
    """Require an API key if other machines can reach the service.

    Raises:
        InputError: There is no key, and the address is not a loopback one.
        StorageError: The store cannot be read.
    """
    if is_loopback(settings.host):
        return
    if not has_valid_key(gate.store) and not has_active_person(gate.store):
        raise InputError(
            "demur refuses to listen on this address: others can reach it, and there is no valid "
            "API key",
            where=f"service.host: {settings.host}",
            help="`demur keys create --tenant NAME --role decide --role read` makes one; "
            "or listen on 127.0.0.1",
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Serve on a socket that another process opened; return the exit status.

    Arguments: the settings file, the service's settings as JSON, and three file descriptors: the
    socket, a pipe that closes when the supervisor ends, and a pipe to report that this process
    listens.
    """
    path, encoded, *numbers = sys.argv[1:] if argv is None else argv
    listening, alive, ready = map(int, numbers)
    settings = read_settings(msgspec.json.decode(encoded))
    try:
        application = make_app(load_config(Path(path)), settings)
    except DemurError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the supervisor reads it
        return 1
    with socket.socket(fileno=listening) as listener:
        server = ApiServer(application, settings, listener, lambda _: _report_listening(ready))
        Thread(target=_stop_with_parent, args=(alive, server.stop), daemon=True).start()
        server.run(sockets=[listener])
    return 0


def _report_listening(ready: int) -> None:
    # The supervisor may have closed its end.
    with suppress(OSError):
        os.write(ready, b"1")
    os.close(ready)


def _stop_with_parent(alive: int, stop: Callable[[], None]) -> None:
    """Stop when the supervisor is gone."""
    os.read(alive, 1)
    stop()


if __name__ == "__main__":
    sys.exit(main())

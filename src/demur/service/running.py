"""Serving a working folder: in this process, or in several workers."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from demur.gate.clock import Clock, system_clock
from demur.gate.config import Config, open_configured_store, open_gate
from demur.service.sample.day import has_sample, make_sample
from demur.service.server import serve
from demur.service.settings import ServiceSettings
from demur.service.supervisor import Supervisor
from demur.service.worker import require_keys, make_app

__all__ = ["add_sample", "run_service"]


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

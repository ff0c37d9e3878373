"""Refusals of providers and frameworks, read by structure and without their SDKs."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.providers.normalization import (
        StreamReader,
        UnreadStreamError,
        normalize,
        read_signal,
    )
    from demur.providers.signals import (
        ProviderSystem,
        Signal,
        SignalOutcome,
        list_systems,
        load_system,
    )

__all__ = [
    "ProviderSystem",
    "Signal",
    "SignalOutcome",
    "StreamReader",
    "UnreadStreamError",
    "list_systems",
    "load_system",
    "normalize",
    "read_signal",
]

_HOMES = {
    "demur.providers.normalization": "StreamReader UnreadStreamError normalize read_signal",
    "demur.providers.signals": "ProviderSystem Signal SignalOutcome list_systems load_system",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)

"""Who listens to a run while it goes on, and is kept from what nobody has judged yet.

Streams and events of a run reach their readers through callbacks that every model in it
inherits, and so before a hook of the middleware sees an answer. Those callbacks are taken out
of a model's reach here, whatever kind of model it is; one whose stream passes the guard is
handed them again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

__all__ = ["RunListeners", "list_handlers", "suppress_callbacks"]


class RunListeners(NamedTuple):
    """The streaming callbacks of a run, and whether it has any callbacks at all."""

    listeners: list[BaseCallbackHandler]
    has_callbacks: bool


@contextmanager
def suppress_callbacks() -> Iterator[RunListeners]:
    """Yield the listeners of the run; inside the block they receive no events."""
    config: Any = var_child_runnable_config.get() or {}
    callbacks = config.get("callbacks")
    handlers = list_handlers(callbacks)
    listeners = list(filter(_is_listener, handlers))
    if not listeners:
        yield RunListeners([], bool(handlers))
        return
    quiet: Any = {**config, "callbacks": _remove_listeners(callbacks, listeners)}
    token = var_child_runnable_config.set(quiet)
    try:
        yield RunListeners(listeners, has_callbacks=True)
    finally:
        var_child_runnable_config.reset(token)


def list_handlers(callbacks: Any) -> list[BaseCallbackHandler]:
    """Return the handlers in callbacks: a list, a manager or None."""
    listed = callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", ())
    return list(listed)


def _is_listener(handler: BaseCallbackHandler) -> bool:
    # LangChain itself recognises streaming handlers by this method.
    return hasattr(handler, "tap_output_iter")


def _remove_listeners(callbacks: Any, listeners: list[BaseCallbackHandler]) -> Any:
    if isinstance(callbacks, list):
        return [one for one in callbacks if one not in listeners]
    quiet = callbacks.copy()
    for one in listeners:
        quiet.remove_handler(one)
    return quiet

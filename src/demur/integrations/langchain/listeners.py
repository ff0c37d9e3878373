"""Who listens to a run while it goes on, and is kept from what nobody has judged yet.

Streams and events of a run reach their readers through callbacks that every model in it
inherits, and so before a hook of the middleware sees an answer. Those callbacks are taken out
of a model's reach here, whatever kind of model it is; one whose stream passes the guard is
handed them again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

__all__ = ["handlers_of", "unheard"]


@contextmanager
def unheard() -> Iterator[list[BaseCallbackHandler]]:
    """Yield those who listen to the run; what happens meanwhile they do not hear."""
    config: Any = var_child_runnable_config.get() or {}
    callbacks = config.get("callbacks")
    listeners = list(filter(_listens, handlers_of(callbacks)))
    if not listeners:
        yield []
        return
    quiet: Any = {**config, "callbacks": _without(callbacks, listeners)}
    token = var_child_runnable_config.set(quiet)
    try:
        yield listeners
    finally:
        var_child_runnable_config.reset(token)


def handlers_of(callbacks: Any) -> list[BaseCallbackHandler]:
    """Return the handlers in callbacks, as the framework has them: a list, a manager, nothing."""
    listed = callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", ())
    return list(listed)


def _listens(handler: BaseCallbackHandler) -> bool:
    # This is how the framework itself tells those who stream from those who only take notes.
    return hasattr(handler, "tap_output_iter")


def _without(callbacks: Any, listeners: list[BaseCallbackHandler]) -> Any:
    if isinstance(callbacks, list):
        return [one for one in callbacks if one not in listeners]
    quiet = callbacks.copy()
    for one in listeners:
        quiet.remove_handler(one)
    return quiet

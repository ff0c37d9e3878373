"""The ruling by which something runs, in its thread or task alone."""

from contextvars import ContextVar

from demur.enforce.ruling import Ruling

__all__ = ["current", "current_ruling"]

current: ContextVar[Ruling | None] = ContextVar("demur_ruling", default=None)


def current_ruling() -> Ruling | None:
    """Return the ruling by which the guarded function or block that is running may run."""
    return current.get()

"""The check result of the guarded code that is running, by thread or task."""

from contextvars import ContextVar

from demur.enforce.ruling import Ruling

__all__ = ["current", "current_ruling"]

current: ContextVar[Ruling | None] = ContextVar("demur_ruling", default=None)


def current_ruling() -> Ruling | None:
    """Return the check result that allowed the running guarded function or block."""
    return current.get()

"""Signals in tests: what is started hears them, also where whoever runs the tests does not."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["restore_signals"]


@contextmanager
def restore_signals(*numbers: int) -> Iterator[None]:
    """Let programs that are started meanwhile hear signals.

    Under `nohup`, or in the background of a shell, they would be deaf to some from the start.
    """
    deaf = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in deaf:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in deaf:
            signal.signal(number, signal.SIG_IGN)

"""A progress bar on one line of a terminal: how much, how fast, how long still."""

from collections.abc import Callable
from typing import TextIO

__all__ = ["ProgressBar", "format_size"]

_BAR_WIDTH = 24
_DRAW_INTERVAL_S = 0.1
_SIZE_UNITS = ("B", "kB", "MB", "GB", "TB")


class ProgressBar:
    """Shows progress towards `size` bytes; with a size of 0, only the speed."""

    def __init__(self, stream: TextIO, size: int, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._size = size
        self._clock = clock
        self._start = self._shown = clock()
        self._done = 0

    def __call__(self, more: int) -> None:
        """Count more bytes, and redraw the bar at intervals."""
        self._done += more
        now = self._clock()
        if now - self._shown >= _DRAW_INTERVAL_S:
            self._shown = now
            self._stream.write(f"\r\x1b[K{self.bar_text(now)}")
            self._stream.flush()

    def bar_text(self, now: float) -> str:
        """Return the text of the bar at a time."""
        rate = self._done / max(now - self._start, 1e-9)
        speed = f"{format_size(self._done)} {format_size(rate)}/s"
        if not self._size:
            return speed
        part = min(self._done / self._size, 1.0)
        full = int(part * _BAR_WIDTH)
        left = max(self._size - self._done, 0) / max(rate, 1e-9)
        bar = "#" * full + "." * (_BAR_WIDTH - full)
        return f"[{bar}] {part:4.0%} {speed} {_format_duration(left)} left"

    def close(self) -> None:
        """Clear the bar."""
        self._stream.write("\r\x1b[K")
        self._stream.flush()


def format_size(size: float) -> str:
    """Return a size with a unit, such as `1.5 MB`."""
    for unit in _SIZE_UNITS[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_SIZE_UNITS[-1]}"


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

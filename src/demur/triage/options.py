"""What a scan looks for, and what it keeps of what it finds."""

from datetime import datetime
from typing import NamedTuple

from demur.codes.registry import Registry

__all__ = ["FORMATS", "Options"]

FORMATS = ("auto", "text", "json")


class Options(NamedTuple):
    """How logs are read. Plain values alone, so that it travels to other processes.

    `registry` is for whoever has one at hand, in this process; else the default one counts,
    with the files of `registries`. `fields` are paths of the message in JSON lines, the
    first that holds a text counts; without any the usual names are tried. `timed` keeps
    the hour of each refusal, which costs time on logs full of them; a bound (`since`,
    `until`) needs it and implies it. `now` completes times that were written without a
    year. `engine` forces one way to search; all give the same counts.
    """

    registries: tuple[str, ...] = ()
    format: str = "auto"
    fields: tuple[str, ...] = ()
    timed: bool = False
    since: datetime | None = None
    until: datetime | None = None
    now: datetime | None = None
    samples: int = 0
    engine: str | None = None
    registry: Registry | None = None

    @property
    def dated(self) -> bool:
        """Whether the time of each refusal is wanted."""
        return self.timed or self.since is not None or self.until is not None

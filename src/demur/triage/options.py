"""The options of a scan."""

from datetime import datetime
from typing import NamedTuple

from demur.codes.registry import Registry

__all__ = ["FORMATS", "TriageOptions"]

FORMATS = ("auto", "text", "json")


class TriageOptions(NamedTuple):
    """How logs are read; plain values only, so that other processes can receive it.

    `registry` is used in this process only; the default is demur's own, with the files of
    `registries`. `fields` are paths of the message in JSON lines: the first that holds a text
    counts; by default the usual names are tried. `timed` keeps the hour of each refusal, which
    is slower on logs full of them; `since` and `until` imply it. `now` completes times without
    a year. `engine` forces a search engine; all give the same counts.
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
    def needs_time(self) -> bool:
        """Whether the time of each refusal is needed."""
        return self.timed or self.since is not None or self.until is not None

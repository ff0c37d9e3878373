"""Tallies: how many decisions, reasons and findings there were in each hour.

They answer what dashboards and alerts ask without reading the records again. Each is a
plain count; nothing in it says whose decision it was.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from demur.errors import InputError

__all__ = [
    "TALLY_KINDS",
    "DecisionTally",
    "FindingTally",
    "ReasonTally",
    "Tallies",
    "TallyRow",
    "hour_of",
    "hours_back",
    "hours_between",
    "tallies_of",
]

TALLY_KINDS = ("decision", "reason", "finding")
_HOUR = "%Y-%m-%dT%H"


class TallyRow(NamedTuple):
    """A tally as it is stored: what `first` to `third` mean depends on its kind."""

    kind: str
    hour: str
    first: str
    second: str
    third: str
    number: int


class DecisionTally(NamedTuple):
    """How many decisions of an hour came out like this. No class is an empty text."""

    hour: str
    verdict: str
    decision_output: str
    refusal_class: str
    number: int


class ReasonTally(NamedTuple):
    """How many decisions of an hour had this reason, and this verdict."""

    hour: str
    reason_code: str
    verdict: str
    number: int


class FindingTally(NamedTuple):
    """How often guards of a surface found something in an hour."""

    hour: str
    surface: str
    code: str
    action: str
    number: int


class Tallies(NamedTuple):
    """All counts of a period, by hour."""

    decisions: tuple[DecisionTally, ...]
    reasons: tuple[ReasonTally, ...]
    findings: tuple[FindingTally, ...]


def hour_of(moment: datetime) -> str:
    """Return the hour that a moment falls in, as tallies name it.

    Raises:
        InputError: The moment has no time zone.
    """
    if moment.tzinfo is None:
        raise InputError("a moment needs a time zone", help="like datetime.now(UTC)")
    return moment.astimezone(UTC).strftime(_HOUR)


def hours_back(now: datetime, hours: int) -> datetime:
    """Return when the last so many hours begin: the one that runs now, and those before it."""
    running = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return running - timedelta(hours=hours - 1)


def hours_between(since: datetime, until: datetime) -> tuple[str, str]:
    """Return the first hour of a period and the one after its last."""
    last = until.astimezone(UTC)
    whole = last.replace(minute=0, second=0, microsecond=0)
    return hour_of(since), hour_of(until if whole == last else whole + timedelta(hours=1))


def tallies_of(rows: Iterable[TallyRow]) -> Tallies:
    """Return stored counts as what they mean."""
    decisions: list[DecisionTally] = []
    reasons: list[ReasonTally] = []
    findings: list[FindingTally] = []
    for kind, hour, first, second, third, number in rows:
        if kind == "decision":
            decisions.append(DecisionTally(hour, first, second, third, number))
        elif kind == "reason":
            reasons.append(ReasonTally(hour, first, second, number))
        else:
            findings.append(FindingTally(hour, first, second, third, number))
    return Tallies(tuple(decisions), tuple(reasons), tuple(findings))

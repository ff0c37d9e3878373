"""Tallies: counts of decisions, reasons and findings by hour.

Dashboards and alerts use them instead of reading the records again. They are plain counts;
nothing in them says whose decision it was.
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
    "group_tallies",
]

TALLY_KINDS = ("decision", "reason", "finding")
_HOUR = "%Y-%m-%dT%H"


class TallyRow(NamedTuple):
    """A stored tally; the meaning of `first` to `third` depends on its kind."""

    kind: str
    hour: str
    first: str
    second: str
    third: str
    number: int


class DecisionTally(NamedTuple):
    """The number of decisions of an hour by outcome; no class is an empty text."""

    hour: str
    verdict: str
    decision_output: str
    refusal_class: str
    number: int


class ReasonTally(NamedTuple):
    """The number of decisions of an hour by reason and verdict."""

    hour: str
    reason_code: str
    verdict: str
    number: int


class FindingTally(NamedTuple):
    """The number of findings of an hour by surface, code and action."""

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
    """Return the hour of a moment in the format of tallies.

    Raises:
        InputError: The moment has no time zone.
    """
    if moment.tzinfo is None:
        raise InputError("a moment needs a time zone", help="like datetime.now(UTC)")
    return moment.astimezone(UTC).strftime(_HOUR)


def hours_back(now: datetime, hours: int) -> datetime:
    """Return the start of the last `hours` hours, the current one included."""
    running = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return running - timedelta(hours=hours - 1)


def hours_between(since: datetime, until: datetime) -> tuple[str, str]:
    """Return the first hour of a period and the one after its last."""
    last = until.astimezone(UTC)
    whole = last.replace(minute=0, second=0, microsecond=0)
    return hour_of(since), hour_of(until if whole == last else whole + timedelta(hours=1))


def group_tallies(rows: Iterable[TallyRow]) -> Tallies:
    """Return stored counts grouped by kind."""
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

"""Whom to tell what: new alerts, those that grew, whose cooldown is over, or that are over."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from demur.errors import InputError
from demur.observe.alerts.evaluate import Alert, State

__all__ = ["Notice", "Told", "dump_told", "load_told", "notice_of"]

_SCHEMA_VERSION = "alert_state.v1"
# Whoever makes codes up shall fill neither the file nor somebody's night.
_MOST_CODES = 1_000
_MOST_NAMED = 5


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """When somebody was last told of a rule, what, and of which codes since the cooldown began."""

    at: datetime
    state: State
    codes: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: str
    told: dict[str, Told]


class Notice(NamedTuple):
    """What to tell now, what is over since it was told, and what will have been told then."""

    alerts: tuple[Alert, ...]
    over: tuple[Alert, ...]
    told: Mapping[str, Told]


def notice_of(alerts: Iterable[Alert], told: Mapping[str, Told], now: datetime) -> Notice:
    """Return what there is to tell, given what was told before.

    A rule that cannot be judged is told of like one that fires: nobody else would notice. A
    cooldown holds for what was told: a code that it did not name is told of at once.
    """
    new: list[Alert] = []
    over: list[Alert] = []
    later: dict[str, Told] = {}
    for alert in alerts:
        rule = alert.rule
        before = told.get(rule.id)
        if alert.state is State.QUIET:
            over += [alert] if before is not None else []
        elif before is None or before.state is not alert.state or now >= before.at + rule.cooldown:
            new.append(alert)
            later[rule.id] = Told(at=now, state=alert.state, codes=alert.codes[:_MOST_CODES])
        elif more := _untold(alert, before):
            new.append(_naming(alert, more))
            codes = (*before.codes, *more)[:_MOST_CODES]
            later[rule.id] = Told(at=now, state=alert.state, codes=codes)
        else:
            later[rule.id] = before
    return Notice(tuple(new), tuple(over), later)


def _untold(alert: Alert, before: Told) -> list[str]:
    """Return the codes that nobody was told of; none once too many are remembered."""
    if len(before.codes) >= _MOST_CODES:
        return []
    told = set(before.codes)
    return [code for code in alert.codes if code not in told]


def _naming(alert: Alert, codes: list[str]) -> Alert:
    """Return an alert that says what is new about it, which its message may have left out."""
    more = f" and {len(codes) - _MOST_NAMED} more" if len(codes) > _MOST_NAMED else ""
    named = f"{', '.join(codes[:_MOST_NAMED])}{more}"
    return alert._replace(message=f"new since it was last told: {named}; {alert.message}")


def load_told(raw: bytes, where: str) -> Mapping[str, Told]:
    """Return what was told, as `dump_told` wrote it.

    Raises:
        InputError: It was written by something else.
    """
    try:
        file = msgspec.json.decode(raw, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"no state of alerts: {error}", where=where) from error
    if file.schema_version != _SCHEMA_VERSION:
        problem = f"unknown schema version `{file.schema_version}`"
        raise InputError(problem, where=where, help=f"this is {_SCHEMA_VERSION}")
    if any(one.at.tzinfo is None for one in file.told.values()):
        raise InputError("no state of alerts: a time has no zone", where=where)
    return file.told


def dump_told(told: Mapping[str, Told]) -> bytes:
    """Return what was told as bytes, for the next check."""
    return msgspec.json.encode(_File(schema_version=_SCHEMA_VERSION, told=dict(told))) + b"\n"

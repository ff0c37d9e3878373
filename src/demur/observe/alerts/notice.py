"""Whom to tell what: new alerts, those that grew, whose cooldown is over, or that are over."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from demur.errors import InputError
from demur.observe.alerts.evaluate import Alert, State

__all__ = ["Notice", "Told", "dump_told", "load_told", "notice_of"]

_SCHEMA_VERSION = "alert_state.v1"
# Bounds the state file and the alerts if someone makes up codes.
_MOST_CODES = 1_000
_MOST_NAMED = 5


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The last delivery for a rule: time, state, and codes named since the cooldown began."""

    at: datetime
    state: State
    codes: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: str
    told: dict[str, Told]


class Notice(NamedTuple):
    """The alerts to deliver, those that are resolved, and the deliveries to remember."""

    alerts: tuple[Alert, ...]
    over: tuple[Alert, ...]
    told: Mapping[str, Told]


def notice_of(alerts: Iterable[Alert], told: Mapping[str, Told], now: datetime) -> Notice:
    """Return the notice to deliver, given the earlier deliveries.

    A rule that cannot be judged is delivered like one that fires, or it would go unnoticed. A
    cooldown covers only what was delivered: a new code is delivered at once.
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
    """Return the codes not delivered yet; none once too many are remembered."""
    if len(before.codes) >= _MOST_CODES:
        return []
    told = set(before.codes)
    return [code for code in alert.codes if code not in told]


def _naming(alert: Alert, codes: list[str]) -> Alert:
    """Return the alert with its new codes named first, which its message may omit."""
    more = f" and {len(codes) - _MOST_NAMED} more" if len(codes) > _MOST_NAMED else ""
    named = f"{', '.join(codes[:_MOST_NAMED])}{more}"
    return alert._replace(message=f"new since the last alert: {named}; {alert.message}")


def load_told(raw: bytes, where: str) -> Mapping[str, Told]:
    """Return the deliveries that `dump_deliveries` wrote.

    Raises:
        InputError: The file is not a state of alerts.
    """
    try:
        file = msgspec.json.decode(raw, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"not a state of alerts: {error}", where=where) from error
    if file.schema_version != _SCHEMA_VERSION:
        problem = f"unknown schema version `{file.schema_version}`"
        raise InputError(problem, where=where, help=f"this is {_SCHEMA_VERSION}")
    if any(one.at.tzinfo is None for one in file.told.values()):
        raise InputError("not a state of alerts: a time has no zone", where=where)
    return file.told


def dump_told(told: Mapping[str, Told]) -> bytes:
    """Return the deliveries as bytes, for the next check."""
    return msgspec.json.encode(_File(schema_version=_SCHEMA_VERSION, told=dict(told))) + b"\n"

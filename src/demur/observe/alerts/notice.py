"""Whom to tell what: new alerts, those that grew, whose cooldown is over, or that are over."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from demur.errors import InputError
from demur.observe.alerts.evaluate import Alert, AlertState

__all__ = ["AlertNotice", "AlertDelivery", "dump_deliveries", "load_deliveries", "make_notice"]

_STATE_SCHEMA_VERSION = "alert_state.v1"
# Bounds the state file and the alerts if someone makes up codes.
_MAX_CODES = 1_000
_MAX_NEW_CODES_NAMED = 5


class AlertDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """The last delivery for a rule: time, state, and codes named since the cooldown began."""

    at: datetime
    state: AlertState
    codes: tuple[str, ...] = ()


class _AlertStateFile(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: str
    told: dict[str, AlertDelivery]


class AlertNotice(NamedTuple):
    """The alerts to deliver, those that are resolved, and the deliveries to remember."""

    alerts: tuple[Alert, ...]
    resolved: tuple[Alert, ...]
    deliveries: Mapping[str, AlertDelivery]


def make_notice(
    alerts: Iterable[Alert], deliveries: Mapping[str, AlertDelivery], now: datetime
) -> AlertNotice:
    """Return the notice to deliver, given the earlier deliveries.

    A rule that cannot be judged is delivered like one that fires, or it would go unnoticed. A
    cooldown covers only what was delivered: a new code is delivered at once.
    """
    new: list[Alert] = []
    over: list[Alert] = []
    later: dict[str, AlertDelivery] = {}
    for alert in alerts:
        rule = alert.rule
        before = deliveries.get(rule.id)
        if alert.state is AlertState.QUIET:
            over += [alert] if before is not None else []
        elif before is None or before.state is not alert.state or now >= before.at + rule.cooldown:
            new.append(alert)
            later[rule.id] = AlertDelivery(
                at=now, state=alert.state, codes=alert.codes[:_MAX_CODES]
            )
        elif more := _unreported_codes(alert, before):
            new.append(_name_new_codes(alert, more))
            codes = (*before.codes, *more)[:_MAX_CODES]
            later[rule.id] = AlertDelivery(at=now, state=alert.state, codes=codes)
        else:
            later[rule.id] = before
    return AlertNotice(tuple(new), tuple(over), later)


def _unreported_codes(alert: Alert, delivery: AlertDelivery) -> list[str]:
    """Return the codes not delivered yet; none once too many are remembered."""
    if len(delivery.codes) >= _MAX_CODES:
        return []
    told = set(delivery.codes)
    return [code for code in alert.codes if code not in told]


def _name_new_codes(alert: Alert, codes: list[str]) -> Alert:
    """Return the alert with its new codes named first, which its message may omit."""
    more = (
        f" and {len(codes) - _MAX_NEW_CODES_NAMED} more"
        if len(codes) > _MAX_NEW_CODES_NAMED
        else ""
    )
    named = f"{', '.join(codes[:_MAX_NEW_CODES_NAMED])}{more}"
    return alert._replace(message=f"new since the last alert: {named}; {alert.message}")


def load_deliveries(raw: bytes, where: str) -> Mapping[str, AlertDelivery]:
    """Return the deliveries that `dump_deliveries` wrote.

    Raises:
        InputError: The file is not a state of alerts.
    """
    try:
        file = msgspec.json.decode(raw, type=_AlertStateFile)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"not a state of alerts: {error}", where=where) from error
    if file.schema_version != _STATE_SCHEMA_VERSION:
        problem = f"unknown schema version `{file.schema_version}`"
        raise InputError(problem, where=where, help=f"this is {_STATE_SCHEMA_VERSION}")
    if any(one.at.tzinfo is None for one in file.told.values()):
        raise InputError("not a state of alerts: a time has no zone", where=where)
    return file.told


def dump_deliveries(deliveries: Mapping[str, AlertDelivery]) -> bytes:
    """Return the deliveries as bytes, for the next check."""
    return (
        msgspec.json.encode(
            _AlertStateFile(schema_version=_STATE_SCHEMA_VERSION, told=dict(deliveries))
        )
        + b"\n"
    )

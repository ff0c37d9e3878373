"""Sample decisions of one day: scenarios drawn by weight, and decided by a real gate."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import yaml

from demur.gate.clock import format_timestamp
from demur.gate.gate import Gate
from demur.guards.builtin import check
from demur.model.finding import Finding
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.store.backend import UnavailableError
from demur.store.rows import Label
from demur.store.store import Store

__all__ = ["SAMPLE_TENANT", "has_sample", "make_sample"]

# Sample decisions have a tenant of their own, so that they are easy to delete.
SAMPLE_TENANT = "sample"
_DEFAULT_COUNT = 900
_DAY_S = 86_400
# How busy each hour is, from midnight on.
_HOURLY_LOAD = (2, 1, 1, 1, 1, 2, 4, 7, 11, 13, 14, 13, 11, 13, 15, 14, 12, 10, 9, 8, 7, 6, 4, 3)


class SampleScenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario of the sample day."""

    action: str
    weight: int
    text: str = ""
    surface: str | None = None
    amount: int | None = None
    evidence: dict[str, Any] = {}
    hours: tuple[int, int] = (0, 24)


class _SampleDay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema_version: str
    scenarios: tuple[SampleScenario, ...]
    people: tuple[str, ...]


class _SampleEvent(NamedTuple):
    """One scenario at one time, for one person."""

    when: datetime
    scenario: SampleScenario
    person: str
    number: int


def make_sample(store: Store, now: datetime, *, count: int = _DEFAULT_COUNT) -> int:
    """Fill a store with sample decisions of the last 24 hours; return how many.

    The same `now` gives the same decisions.
    """
    clock = [now]
    gate = Gate(parse_policy(_read("policy.yaml"), "sample policy"), store, clock=lambda: clock[0])
    events = list(_draw_events(now, count))
    for event in events:
        clock[0] = event.when
        record = _decide_event(gate, event)
        # Label every ninth decision that was not simply allowed.
        if record.verdict != "ALLOW" and event.number % 9 == 0:
            later = format_timestamp(event.when + timedelta(minutes=20))
            value = "false_refusal" if event.number % 27 == 0 else "good"
            identity = (record.decision_id, SAMPLE_TENANT)
            store.add_label(Label(*identity, later, "review", value, "", "dana (sample)"))
    return len(events)


def has_sample(store: Store) -> bool:
    """Return whether a store holds sample decisions; false if it cannot be reached now."""
    try:
        return any(head.tenant == SAMPLE_TENANT for head in store.list_heads())
    except UnavailableError:
        return False


def _read(name: str) -> str:
    return (files("demur.service.sample") / name).read_text(encoding="utf-8")


@cache
def _load_day() -> _SampleDay:
    return msgspec.convert(yaml.safe_load(_read("day.yaml")), _SampleDay)


def _draw_events(now: datetime, count: int) -> Iterator[_SampleEvent]:
    """Yield events in order, drawn by the load of the hours and the weight of the scenarios."""
    day = _load_day()
    start = now - timedelta(seconds=_DAY_S)
    hours = [(start + timedelta(hours=offset)).hour for offset in range(24)]
    busy = list(accumulate(_HOURLY_LOAD[hour] for hour in hours))
    drawn = _random_numbers(count)
    places = sorted((next(drawn), next(drawn), next(drawn)) for _ in range(count))
    for number, (place, kind, who) in enumerate(places):
        mark = place * busy[-1]
        offset = next(index for index, total in enumerate(busy) if mark <= total)
        before = busy[offset - 1] if offset else 0
        part = (mark - before) / (busy[offset] - before)
        when = start + timedelta(hours=offset + part)
        person = day.people[int(who * len(day.people))]
        yield _SampleEvent(when, _draw_scenario(day, when.hour, kind), person, number)


def _draw_scenario(day: _SampleDay, hour: int, drawn: float) -> SampleScenario:
    possible = [one for one in day.scenarios if one.hours[0] <= hour < one.hours[1]]
    totals = list(accumulate(one.weight for one in possible))
    mark = drawn * totals[-1]
    return next(one for one, total in zip(possible, totals, strict=True) if mark <= total)


def _random_numbers(seed: int) -> Iterator[float]:
    """Yield pseudo-random numbers from 0 to 1 for a seed."""
    state = seed + 0x9E3779B97F4A7C15
    while True:
        state = (state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        yield ((mixed ^ (mixed >> 31)) >> 11) / 2**53


def _decide_event(gate: Gate, event: _SampleEvent) -> DecisionRecord:
    scenario = event.scenario
    action: dict[str, Any] = {"type": scenario.action, "tags": ["sample"]}
    if scenario.text:
        action["intent"] = scenario.text
    if scenario.amount is not None:
        action["amount"] = {"value": scenario.amount, "currency": "USD"}
    request = {
        "schema_version": "decision_request.v1",
        "request_id": f"sample-{event.when:%Y%m%d}-{event.number:04d}",
        "subject": {"type": "customer", "id": f"{event.person}@example.com"},
        "action": action,
        "evidence": scenario.evidence,
    }
    findings = () if scenario.surface is None else _find_in_text(scenario.surface, scenario.text)
    return gate.decide(request, findings=findings, tenant=SAMPLE_TENANT)


@cache
def _find_in_text(surface: str, text: str) -> tuple[Finding, ...]:
    return tuple(check(surface, text))

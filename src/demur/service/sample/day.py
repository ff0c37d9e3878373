"""The sample day: scenarios drawn by weight over 24 hours, and decided by a real gate."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import yaml

from demur.gate.clock import Clock, format_timestamp
from demur.gate.gate import Gate
from demur.guards.builtin import check
from demur.model.finding import Finding
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.store.rows import Label
from demur.store.store import Store

__all__ = ["SAMPLE_TENANT", "SampleScenario", "has_sample", "make_sample"]

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
    scenes: tuple[SampleScenario, ...]
    people: tuple[str, ...]


class _SampleEvent(NamedTuple):
    """One scenario at one time, for one person."""

    when: datetime
    scene: SampleScenario
    person: str
    number: int


def make_sample(store: Store, now: datetime, *, count: int = _DEFAULT_COUNT) -> int:
    """Fill a store with sample decisions of the last 24 hours; return how many.

    The same `now` gives the same decisions.
    """
    moments = list(_draw_events(now, count))
    times = iter([moment.when for moment in moments])
    clock: list[datetime] = [now]

    def told() -> datetime:
        return clock[0]

    gate = _open_gate(store, told)
    for moment in moments:
        clock[0] = next(times)
        record = _decide_event(gate, moment)
        label = _label_event(record, moment)
        if label is not None:
            store.add_label(label)
    return len(moments)


def has_sample(store: Store) -> bool:
    """Return whether a store holds sample decisions."""
    return any(head.tenant == SAMPLE_TENANT for head in store.list_heads())


def _open_gate(store: Store, clock: Clock) -> Gate:
    text = (files("demur.service.sample") / "policy.yaml").read_text(encoding="utf-8")
    return Gate(parse_policy(text, "sample policy"), store, clock=clock)


@cache
def _load_day() -> _SampleDay:
    text = (files("demur.service.sample") / "day.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), _SampleDay)


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
    possible = [scene for scene in day.scenes if scene.hours[0] <= hour < scene.hours[1]]
    totals = list(accumulate(scene.weight for scene in possible))
    mark = drawn * totals[-1]
    return next(scene for scene, total in zip(possible, totals, strict=True) if mark <= total)


def _random_numbers(seed: int) -> Iterator[float]:
    """Yield pseudo-random numbers from 0 to 1 for a seed."""
    state = seed + 0x9E3779B97F4A7C15
    while True:
        state = (state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        yield ((mixed ^ (mixed >> 31)) >> 11) / 2**53


def _decide_event(gate: Gate, moment: _SampleEvent) -> DecisionRecord:
    scene = moment.scene
    action: dict[str, Any] = {"type": scene.action, "tags": ["sample"]}
    if scene.text:
        action["intent"] = scene.text
    if scene.amount is not None:
        action["amount"] = {"value": scene.amount, "currency": "USD"}
    request = {
        "schema_version": "decision_request.v1",
        "request_id": f"sample-{moment.when:%Y%m%d}-{moment.number:04d}",
        "subject": {"type": "customer", "id": f"{moment.person}@example.com"},
        "action": action,
        "evidence": scene.evidence,
    }
    findings = () if scene.surface is None else _find_in_text(scene.surface, scene.text)
    return gate.decide(request, findings=findings, tenant=SAMPLE_TENANT)


@cache
def _find_in_text(surface: str, text: str) -> tuple[Finding, ...]:
    return tuple(check(surface, text))


def _label_event(record: DecisionRecord, moment: _SampleEvent) -> Label | None:
    """Return a label for every ninth decision that was not simply allowed."""
    if record.verdict == "ALLOW" or moment.number % 9:
        return None
    later = format_timestamp(moment.when + timedelta(minutes=20))
    value = "false_refusal" if moment.number % 27 == 0 else "good"
    return Label(record.decision_id, SAMPLE_TENANT, later, "review", value, "", "dana (sample)")

from datetime import timedelta

from support.gates import NOON, Ticking, finding, gate_over, refund

from demur.model.finding import Action
from demur.service.dashboard.counts import count_period
from demur.service.dashboard.time_range import named_range, range_between
from demur.store.opening import open_store

RISKY = {"ticket_id": "T-1", "chargeback_risk": 0.95}


def test_a_period_is_compared_with_the_one_before() -> None:
    clock = Ticking(NOON - timedelta(hours=30))
    with open_store(":memory:") as store:
        gate = gate_over(store, clock=clock)
        gate.decide(refund(evidence=RISKY))
        clock.now = NOON - timedelta(hours=2)
        for _ in range(3):
            gate.decide(refund())
        gate.decide(refund(evidence=RISKY), tenant="other")
        now = NOON + timedelta(minutes=1)
        all_of_them = count_period(store, None, now, named_range("24h", now))
        other = count_period(store, "other", now, named_range("24h", now))
        week = count_period(store, None, now, named_range("7d", now))

    by = {one.outcome: one for one in all_of_them.outcomes}
    assert (all_of_them.decisions, all_of_them.before) == (4, 1)
    refused = by["refused"]
    assert (refused.count, refused.before, refused.percent) == (1, 1, 25)
    assert all_of_them.verdicts["DENY"] == 1
    assert all_of_them.series[-3:] == [4, 0, 0]
    assert all_of_them.code_counts("CHARGEBACK_RISK_BLOCK").verdicts == {"DENY": 1}
    assert all_of_them.code_counts("RCE_RISK").count == 0
    assert other.decisions == 1
    assert [(one.code, one.count, one.percent) for one in week.denied_codes()] == [
        ("CHARGEBACK_RISK_BLOCK", 2, 100)
    ]


def test_compared_periods_are_equally_long() -> None:
    clock = Ticking(NOON)
    with open_store(":memory:") as store:
        gate = gate_over(store, clock=clock)
        for hours in (24, 25):
            clock.now = NOON - timedelta(hours=hours)
            for _ in range(40):
                gate.decide(refund())
        early = count_period(
            store,
            None,
            NOON + timedelta(minutes=15),
            named_range("24h", NOON + timedelta(minutes=15)),
        )
        late = count_period(
            store,
            None,
            NOON + timedelta(minutes=45),
            named_range("24h", NOON + timedelta(minutes=45)),
        )
        week = count_period(
            store,
            None,
            NOON + timedelta(days=6, minutes=15),
            named_range("7d", NOON + timedelta(days=6, minutes=15)),
        )

    # Of the hour a day before the one that runs, as much counts as has passed of this one.
    assert (early.before, late.before) == (50, 70)
    assert week.before == 50
    assert next(one for one in early.outcomes if one.outcome == "allowed").before == 50


def test_findings_are_counted_by_surface() -> None:
    with open_store(":memory:") as store:
        clock = Ticking(NOON - timedelta(hours=30))
        gate = gate_over(store, clock=clock)
        gate.decide(refund(), findings=[finding("SECRET_LEAK")])
        clock.now = NOON
        for _ in range(3):
            gate.decide(refund(), findings=[finding(), finding("PROMPT_LEAK", action=Action.WARN)])
        watched = count_period(
            store,
            None,
            NOON + timedelta(minutes=1),
            named_range("24h", NOON + timedelta(minutes=1)),
        )

    [surface] = watched.surfaces
    assert (surface.surface, surface.count, surface.percent) == ("input", 6, 100)
    assert surface.actions == {"block": 3, "warn": 3}
    assert surface.codes == [("PROMPT_LEAK", 3), ("RCE_RISK", 3)]


def test_many_tenants_are_counted_together() -> None:
    with open_store(":memory:") as store:
        gate = gate_over(store)
        for number in range(12):
            gate.decide(refund(), tenant=f"t{number}")
        watched = count_period(
            store,
            None,
            NOON + timedelta(minutes=1),
            named_range("24h", NOON + timedelta(minutes=1)),
        )

    assert watched.decisions == 12


def test_short_ranges_are_counted_by_the_minute() -> None:
    clock = Ticking(NOON - timedelta(minutes=10))
    with open_store(":memory:") as store:
        gate = gate_over(store, clock=clock)
        gate.decide(refund(evidence=RISKY), findings=[finding("SECRET_LEAK")])
        clock.now = NOON - timedelta(minutes=20)
        gate.decide(refund(), tenant="other")
        now = NOON + timedelta(seconds=30)
        quarter = count_period(store, None, now, named_range("15m", now))
        chosen = range_between(NOON - timedelta(minutes=21), NOON - timedelta(minutes=9))
        both = count_period(store, None, now, chosen)

    assert (quarter.decisions, quarter.before) == (1, 1)
    assert quarter.series[4] == 1
    assert [one.surface for one in quarter.surfaces] == ["input"]
    assert both.decisions == 2


def test_days_are_counted_from_hours() -> None:
    clock = Ticking(NOON - timedelta(days=3))
    with open_store(":memory:") as store:
        gate = gate_over(store, clock=clock)
        for hours in (0, 5, 11, 13):
            clock.now = NOON - timedelta(days=3) + timedelta(hours=hours)
            gate.decide(refund(evidence=RISKY))
        month = count_period(store, "default", NOON, named_range("30d", NOON))

    assert month.series[-4:] == [3, 1, 0, 0]
    assert month.code_counts("CHARGEBACK_RISK_BLOCK").count == 4

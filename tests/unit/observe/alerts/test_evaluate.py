from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.alert_samples import NOW, alert

from demur.codes.registry import Registry
from demur.codes.vocabulary import Severity
from demur.errors import InputError
from demur.observe.alerts.counts import DecisionCounts, unknown_counts
from demur.observe.alerts.evaluate import (
    Alert,
    AlertDelivery,
    AlertNotice,
    AlertState,
    alert_json,
    dump_deliveries,
    evaluate_rules,
    json_message,
    load_deliveries,
    make_notice,
    pagerduty_events,
    slack_message,
)
from demur.observe.alerts.rules import (
    AlertKind,
    AlertRule,
    DecisionSelector,
    SelectorField,
    ShareWhole,
)

NOW_evaluate = datetime(2027, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
CORE = Registry.load()
CODE = DecisionSelector(SelectorField.CODE, "RCE_RISK")
DENY = DecisionSelector(SelectorField.VERDICT, "DENY")


class Scripted:
    """Tells the newest window, then the time before it, then whatever is older."""

    def __init__(self, *counts: DecisionCounts) -> None:
        self.counts = counts
        self.asked: list[tuple[datetime, datetime]] = []

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:
        """Return the next counts."""
        self.asked.append((since, until))
        return self.counts[min(len(self.asked), len(self.counts)) - 1]


def make(kind: AlertKind, selector: DecisionSelector | None = CODE, **more: Any) -> AlertRule:
    given: dict[str, Any] = {"window": HOUR, "before": HOUR, "minimum": 1, **more}
    return AlertRule("A1", kind, Severity.HIGH, description="d", selector=selector, **given)


def judged(rule: AlertRule, *counts: DecisionCounts) -> Alert:
    [alert] = evaluate_rules([rule], Scripted(*counts), NOW_evaluate, CORE)
    return alert


@pytest.mark.parametrize(
    ("number", "state"), [(50, AlertState.QUIET), (51, AlertState.FIRING), (0, AlertState.QUIET)]
)
def test_a_count_fires_above_its_number(number: int, state: AlertState) -> None:
    alert = judged(make(AlertKind.COUNT, threshold=50), DecisionCounts(100, {"RCE_RISK": number}))

    assert (alert.state, alert.value) == (state, number)
    assert alert.message.startswith(f"RCE_RISK: {number} in the last hour, ")
    assert (alert.since, alert.until) == (NOW_evaluate - HOUR, NOW_evaluate)


def test_a_count_that_is_the_least_there_were_can_fire_and_is_never_quiet() -> None:
    rule = make(AlertKind.COUNT, threshold=50)

    assert (
        judged(rule, DecisionCounts(codes={"RCE_RISK": 51}, problem="gone")).state
        is AlertState.FIRING
    )
    alert = judged(rule, DecisionCounts(codes={"RCE_RISK": 50}, problem="gone"))
    assert (alert.state, alert.message) == (AlertState.UNJUDGED, "could not judge: gone")


def test_a_rule_on_a_count_that_the_source_lacks_is_unjudged() -> None:
    log = DecisionCounts(None, {}, {}, None, None)

    assert judged(make(AlertKind.COUNT, DENY), log).message.endswith("the source does not tell it")
    assert judged(make(AlertKind.SHARE), log).state is AlertState.UNJUDGED
    assert judged(make(AlertKind.RATE_CHANGE, DENY), log).state is AlertState.UNJUDGED
    assert judged(make(AlertKind.RATE_CHANGE), log).state is AlertState.UNJUDGED
    assert judged(make(AlertKind.SHARE, whole=ShareWhole.REFUSALS), log).state is AlertState.QUIET


@pytest.mark.parametrize(
    ("number", "whole", "state"),
    [
        (10, 100, AlertState.QUIET),
        (11, 100, AlertState.FIRING),
        (9, 9, AlertState.QUIET),  # fewer than the minimum
        (0, 0, AlertState.QUIET),
    ],
)
def test_a_share_fires_above_its_percentage_if_there_is_enough(
    number: int, whole: int, state: AlertState
) -> None:
    rule = make(AlertKind.SHARE, threshold=10, minimum=10)

    assert judged(rule, DecisionCounts(whole, {"RCE_RISK": number})).state is state


def test_a_share_can_be_one_of_refusals() -> None:
    codes = {"RCE_RISK": 1, "SECRET_LEAK": 1, "SUCCESS_MEMORY_SIMILAR_ALLOW": 98, "X_UNKNOWN": 2}
    alert = judged(
        make(AlertKind.SHARE, threshold=20, whole=ShareWhole.REFUSALS), DecisionCounts(None, codes)
    )

    assert (alert.state, alert.value) == (AlertState.FIRING, 25)
    assert alert.message == "RCE_RISK: 25 % of 4 refusals in the last hour, over 20 %"


def test_a_share_of_incomplete_counts_is_not_judged() -> None:
    alert = judged(make(AlertKind.SHARE), DecisionCounts(10, {"RCE_RISK": 10}, problem="gone"))

    assert alert.state is AlertState.UNJUDGED


@pytest.mark.parametrize(
    ("now", "before", "state", "value"),
    [
        ((20, 100), (10, 100), AlertState.FIRING, 2.0),
        ((19, 100), (10, 100), AlertState.QUIET, 1.9),
        ((40, 200), (20, 200), AlertState.FIRING, 2.0),
        ((20, 200), (20, 200), AlertState.QUIET, 1.0),  # more decisions alone change nothing
        ((20, 100), (0, 100), AlertState.FIRING, None),
        ((4, 10), (1, 100), AlertState.QUIET, None),  # too few now
        ((20, 100), (1, 4), AlertState.QUIET, None),  # too few before
    ],
)
def test_a_rate_fires_when_it_grew_by_its_factor(
    now: tuple[int, int], before: tuple[int, int], state: AlertState, value: float | None
) -> None:
    rule = make(AlertKind.RATE_CHANGE, DENY, threshold=2, minimum=5)
    alert = judged(
        rule, *(DecisionCounts(whole, verdicts={"DENY": number}) for number, whole in (now, before))
    )

    assert alert.state is state
    assert alert.value == value or alert.value == pytest.approx(value)


def test_a_rate_is_not_judged_if_either_time_is_not_known() -> None:
    rule = make(AlertKind.RATE_CHANGE, DENY, threshold=2)
    good = DecisionCounts(100, verdicts={"DENY": 50})

    for pair in ((good, unknown_counts("a")), (unknown_counts("a"), good)):
        assert judged(rule, *pair).message == "could not judge: a"


def test_a_rate_is_held_against_the_time_before_its_window() -> None:
    source = Scripted(DecisionCounts())
    evaluate_rules(
        [make(AlertKind.RATE_CHANGE, DENY, before=24 * HOUR)], source, NOW_evaluate, CORE
    )

    assert source.asked == [
        (NOW_evaluate - HOUR, NOW_evaluate),
        (NOW_evaluate - 25 * HOUR, NOW_evaluate - HOUR),
    ]


def test_an_unknown_code_fires_only_while_it_is_new() -> None:
    rule = make(AlertKind.NEW_UNKNOWN_CODE, None)
    new = DecisionCounts(codes={"RCE_RISK": 1, "A_NEW_ONE": 2, "B_NEW_ONE": 7, "OLD_ONE": 3})

    alert = judged(rule, new, DecisionCounts(codes={"OLD_ONE": 1}))

    assert (alert.state, alert.value) == (AlertState.FIRING, 2)
    assert "knows B_NEW_ONE (7), A_NEW_ONE (2), seen" in alert.message
    assert judged(rule, new, new).state is AlertState.QUIET


def test_many_unknown_codes_are_not_all_named() -> None:
    codes = {f"NEW_{number}": 1 for number in range(7)}

    alert = judged(
        make(AlertKind.NEW_UNKNOWN_CODE, None), DecisionCounts(codes=codes), DecisionCounts()
    )

    assert "NEW_4 (1) and 2 more" in alert.message


def test_unknown_codes_are_not_judged_quiet_from_incomplete_counts() -> None:
    rule = make(AlertKind.NEW_UNKNOWN_CODE, None)

    assert judged(rule, unknown_counts("gone"), DecisionCounts()).state is AlertState.UNJUDGED
    assert judged(rule, DecisionCounts(), unknown_counts("gone")).message == "could not judge: gone"


def test_a_rule_that_must_hold_for_some_time_waits() -> None:
    rule = make(AlertKind.COUNT, threshold=0, hold=timedelta(minutes=50))
    many, none = DecisionCounts(codes={"RCE_RISK": 1}), DecisionCounts()

    assert judged(rule, many).state is AlertState.FIRING
    alert = judged(rule, many, many, none)
    assert alert.state is AlertState.QUIET
    assert alert.message.startswith("not for 50 minutes yet: RCE_RISK: 1 in")
    assert judged(rule, many, unknown_counts("gone")).state is AlertState.UNJUDGED
    assert judged(rule, none).state is AlertState.QUIET


def test_a_rule_with_hold_is_evaluated_at_times_spread_over_it() -> None:
    source = Scripted(DecisionCounts(codes={"RCE_RISK": 1}))
    evaluate_rules([make(AlertKind.COUNT, hold=timedelta(minutes=50))], source, NOW_evaluate, CORE)

    ends = [NOW_evaluate - until for _, until in source.asked]
    assert ends == [timedelta(minutes=10 * step) for step in range(6)]


NO_ZONE = (
    b'{"schema_version":"alert_state.v1",'
    b'"told":{"A":{"at":"2027-01-01T00:00:00","state":"firing"}}}'
)


def ids(alerts: object) -> list[str]:
    assert isinstance(alerts, tuple)
    return [one.rule.id for one in alerts]


def test_firing_and_unjudged_alerts_are_notified_and_remembered() -> None:
    notice = make_notice(
        [alert("A1"), alert("B1", AlertState.UNJUDGED), alert("C1", AlertState.QUIET)], {}, NOW
    )

    assert ids(notice.alerts) == ["A1", "B1"]
    assert notice.resolved == ()
    assert notice.deliveries["A1"] == AlertDelivery(at=NOW, state=AlertState.FIRING)
    assert set(notice.deliveries) == {"A1", "B1"}


def test_no_notification_repeats_before_the_cooldown() -> None:
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.FIRING)}
    one = alert("A1", cooldown=HOUR)

    assert make_notice([one], told, NOW + HOUR / 2).alerts == ()
    assert make_notice([one], told, NOW + HOUR / 2).deliveries == told
    assert ids(make_notice([one], told, NOW + HOUR).alerts) == ["A1"]


def test_a_change_of_state_is_notified_at_once() -> None:
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.UNJUDGED)}

    assert ids(make_notice([alert("A1", cooldown=HOUR)], told, NOW).alerts) == ["A1"]


def test_a_resolved_alert_is_notified_once() -> None:
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.FIRING)}
    notice = make_notice([alert("A1", AlertState.QUIET)], told, NOW)

    assert ids(notice.resolved) == ["A1"]
    assert notice.deliveries == {}


def test_deliveries_survive_a_round_trip() -> None:
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.FIRING, codes=("MADE_UP",))}

    assert load_deliveries(dump_deliveries(told), "state") == told


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"schema_version": "alert_state.v2", "told": {}}',
        b'{"schema_version": "alert_state.v1", "told": {"A": {"at": 3, "state": "firing"}}}',
        NO_ZONE,
    ],
)
def test_a_file_of_something_else_is_an_error(raw: bytes) -> None:
    with pytest.raises(InputError):
        load_deliveries(raw, "state")


def test_a_new_code_is_notified_before_the_cooldown() -> None:
    one = alert("A1", cooldown=timedelta(days=1))._replace(codes=("FIRST", "LATER"))
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.FIRING, codes=("FIRST",))}
    notice = make_notice([one], told, NOW + HOUR)

    [again] = notice.alerts
    assert again.message == f"new since the last alert: LATER; {one.message}"
    assert notice.deliveries["A1"].codes == ("FIRST", "LATER")
    assert make_notice([one], notice.deliveries, NOW + 2 * HOUR).alerts == ()
    fewer = one._replace(codes=("LATER",))
    assert make_notice([fewer], notice.deliveries, NOW + 2 * HOUR).deliveries == notice.deliveries


def test_many_new_codes_are_not_all_named() -> None:
    one = alert("A1", cooldown=HOUR)._replace(codes=tuple(f"C{n}" for n in range(7)))
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.FIRING)}
    [again] = make_notice([one], told, NOW).alerts

    assert "alert: C0, C1, C2, C3, C4 and 2 more; " in again.message


def test_invented_codes_do_not_cause_endless_notifications() -> None:
    many = tuple(f"C{n}" for n in range(5000))
    one = alert("A1", cooldown=HOUR)._replace(codes=many)
    told = make_notice([one], {}, NOW).deliveries
    assert len(told["A1"].codes) == 1000

    assert make_notice([one._replace(codes=("NEW",))], told, NOW + HOUR / 2).alerts == ()
    assert make_notice([one], told, NOW + HOUR).alerts != ()


def test_a_file_from_before_codes_were_remembered_is_read() -> None:
    raw = NO_ZONE.replace(b"00:00:00", b"00:00:00Z")

    assert load_deliveries(raw, "state")["A"].codes == ()


NOTICE = AlertNotice(
    (alert("A1"), alert("B1", AlertState.UNJUDGED)), (alert("C1", AlertState.QUIET),), {}
)


def test_json_tells_everything() -> None:
    document = json_message(NOTICE, "prod")

    assert [one["id"] for one in document["alerts"]] == ["A1", "B1"]
    assert [one["id"] for one in document["resolved"]] == ["C1"]
    assert document["alerts"][0] == alert_json(alert("A1"), "prod")
    assert document["alerts"][0]["dedup_key"] == "demur/prod/A1"
    assert document["alerts"][0]["until"] == "2027-01-01T12:00:00.000Z"


def test_slack_gets_one_message_that_mentions_nobody() -> None:
    hostile = alert("A1", message="<!channel> & <http://evil|click>")
    message = slack_message(AlertNotice((hostile,), (), {}), "<prod>")

    assert message["text"] == "demur &lt;prod&gt;: firing: A1"
    [block] = message["blocks"]
    assert block["type"] == "section"
    assert block["text"]["type"] == "mrkdwn"
    assert "<" not in block["text"]["text"]
    assert "&lt;!channel&gt; &amp;" in block["text"]["text"]


def test_the_slack_message_lists_firing_unjudged_and_resolved_alerts() -> None:
    message = slack_message(NOTICE)

    assert message["text"] == "demur: firing: A1; could not judge: B1; over: C1"
    assert [block["text"]["text"].split()[0] for block in message["blocks"]] == [
        ":rotating_light:",
        ":grey_question:",
        ":white_check_mark:",
    ]
    assert "_look_" in message["blocks"][0]["text"]["text"]
    assert "_look_" not in message["blocks"][2]["text"]["text"]


def test_slack_takes_only_so_many_blocks() -> None:
    many = tuple(alert(f"A{number}") for number in range(60))
    blocks = slack_message(AlertNotice(many, (), {}))["blocks"]

    assert len(blocks) == 50
    assert blocks[-1]["text"]["text"] == "and 11 more"


def test_pagerduty_gets_an_event_for_each_alert() -> None:
    first, second, third = pagerduty_events(NOTICE, "key", "prod")

    assert first["routing_key"] == "key"
    assert (first["event_action"], first["dedup_key"]) == ("trigger", "demur/prod/A1")
    payload = first["payload"]
    assert payload["summary"] == "A1: RCE_RISK: 3 in the last hour"
    assert (payload["source"], payload["severity"]) == ("prod", "error")
    assert payload["timestamp"] == "2027-01-01T12:00:00.000Z"
    assert payload["custom_details"]["runbook"] == "look"
    assert second["payload"]["custom_details"]["state"] == "unjudged"
    assert third == {
        "routing_key": "key",
        "event_action": "resolve",
        "dedup_key": "demur/prod/C1",
    }


def test_a_summary_is_as_long_as_pagerduty_takes() -> None:
    long = alert("A1", message="x" * 2000)
    [event] = pagerduty_events(AlertNotice((long,), (), {}), "key")

    assert len(event["payload"]["summary"]) == 1024
    assert event["payload"]["source"] == "demur"
    assert long.until == NOW

from alert_samples import NOW, alert

from demur.observe.alerts.evaluate import AlertState
from demur.observe.alerts.messages import (
    alert_json,
    json_message,
    pagerduty_events,
    slack_message,
)
from demur.observe.alerts.notice import AlertNotice

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


def test_slack_is_told_what_fires_what_cannot_be_judged_and_what_is_over() -> None:
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

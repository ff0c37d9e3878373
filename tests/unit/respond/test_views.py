import pytest
from gates import finding, opened, refund

from demur.classification.conclude import make_decision
from demur.codes.vocabulary import Verdict
from demur.errors import InputError
from demur.model.refusal import Refusal
from demur.respond.views import view

LIMITED = Refusal.from_code("RATE_LIMIT", evidence={"retry_after": 7, "limit": 5})


def test_people_get_words() -> None:
    seen = view(LIMITED, "end_user", locale="fr-CA")

    assert seen["locale"] == "fr"
    assert "7 secondes" in seen["text"]
    assert not {"code", "line", "advice", "next_step", "evidence"} & set(seen)


def test_agents_get_what_they_act_on() -> None:
    assert view(LIMITED, "agent") == {
        "code": "RATE_LIMIT",
        "refusal_class": "WORKFLOW_BLOCK",
        "decided": True,
        "advice": "retry_later",
        "retry_scope": "session",
        "missing": [],
        "constraints": [],
        "line": "REFUSED: RATE_LIMIT: ",
        "retry_after": 7,
    }


@pytest.mark.parametrize("wait", ["7", True, None])
def test_a_wait_that_is_no_number_is_kept_from_agents(wait: object) -> None:
    source = Refusal.from_code("RATE_LIMIT", evidence={"retry_after": wait})

    assert "retry_after" not in view(source, "agent")


def test_a_decision_brings_its_recovery_to_agents() -> None:
    decided = make_decision(Verdict.ESCALATE, ["CONTEXT_MISSING"], missing=["order_id"])
    seen = view(decided, "agent")

    assert seen["decision_output"] == "NEED_CONTEXT"
    assert seen["missing"] == ["order_id"]
    assert seen["what_can_be_done_now"] == "Supply what is missing: order_id."
    assert seen["attempts_left"] is True


def test_operators_get_the_whole_record_and_the_words() -> None:
    with opened() as gate:
        record = gate.decide(refund(), findings=[finding(evidence={"command": "curl | sh"})])
    seen = view(record, "operator")

    assert {key: seen[key] for key in record} == dict(record)
    assert seen["findings"][0]["evidence"] == {"command": "curl | sh"}
    assert seen["words"] == view(record, "end_user")
    assert seen["code"] == "RCE_RISK"


def test_an_unknown_audience_is_told() -> None:
    with pytest.raises(InputError, match="unknown audience `everyone`"):
        view(LIMITED, "everyone")


def test_a_view_takes_the_settings_of_the_words() -> None:
    source = Refusal.from_code("JAILBREAK_WRAPPER")

    assert view(source, "end_user", persona="Milo")["text"].startswith("I'm Milo")
    crisis = view(Refusal.from_code("CRISIS_ESCALATION"), "end_user", resources=["call 988"])
    assert crisis["resources"] == ["call 988"]

import json

import pytest
from support.command_line import demur
from support.support_desk import LARGE, UNCLEAR, ask, decided, setting, signer

from demur.audit.report import MAX_TICKET_LENGTH

pytestmark = pytest.mark.usefixtures("workspace")


def ticket() -> str:
    ran = demur("explain", "last", "--markdown")
    assert ran.status == 0, ran.err
    return ran.out


def test_a_ticket_says_what_why_and_how_to_go_on() -> None:
    record = decided(LARGE)

    assert ticket() == (
        "### Needs something: `refund, 900 USD`\n"
        "\n"
        "The refund is larger than the agent may pay out without a person.\n"
        "\n"
        "- **Verdict** ESCALATE, NEED_CONTEXT, WORKFLOW_BLOCK\n"
        "- **Decided** REFUND_OVER_ESCALATION_LIMIT by rule R_LARGE_REFUND\n"
        "- **Reason** `REFUND_OVER_ESCALATION_LIMIT`: "
        "The refund is larger than the agent may pay out without a person.\n"
        "- **Rule** `R_LARGE_REFUND` (ESCALATIONS): "
        "action.type is refund and amount_usd is over 200\n"
        "- **Now** Supply what is missing: approval.\n"
        "- **Then** Send it as a continuation of this request. A grant of approval lifts it.\n"
        "- **Next step** request_approval\n"
        "- **Policy** `support-desk 1.0.0` (enforce)\n"
        f"- **Decision** `{record['decision_id']}`, tenant `default`\n"
        f"- **Time** {record['created_at']}\n"
    )


def test_a_ticket_holds_nothing_personal() -> None:
    request = {
        "subject": {"type": "user", "id": "jane-doe"},
        "action": {"type": "refund", "intent": "for my sick child", "tags": ["vip-guest"]},
        "evidence": {"order_id": "A-77123", "chargeback_risk": "rather low"},
        "context": {"inline": {"email": "jane@example.com"}},
    }
    decided(stdin=json.dumps(request))
    demur("learn", "last", "--outcome", "failure", "--note", "called twice", "--by", "marianne")
    text = ticket()

    assert "- **Turned out** `failure`\n" in text
    assert (
        "- **Invalid** evidence.chargeback_risk cannot be used: it is a text; give a number" in text
    )
    for personal in ("jane", "child", "vip", "A-77123", "rather low", "called", "marianne"):
        assert personal not in text


def test_the_ticket_shows_attempts_and_lifted_codes() -> None:
    key = signer()
    setting('keys = "mary.trusted.json"')
    decided(LARGE)
    demur("approve", "last", "--key", key)
    decided(LARGE, "--continues", "last")
    text = ticket()

    assert "- **Lifted** `REFUND_OVER_ESCALATION_LIMIT`\n" in text
    assert "- **Attempt** 2 of 2 so far\n" in text


def test_a_caller_cannot_write_markdown_into_a_ticket() -> None:
    decided(stdin=ask("x` **bold** # Heading <img src=x>"))
    first = ticket().splitlines()[0]

    assert first == "### Needs something: ``x` **bold** # Heading <img src=x>``"


def test_a_ticket_has_a_bound() -> None:
    codes = ("UNVERIFIED_TOOL", "RCE_RISK", "EXFILTRATION_RISK", "PRIVILEGE_ESCALATION")
    more = ("RISKY_IMPORT", "OBFUSCATED_CODE", "SKILL_INJECTION", "SECRET_LEAK", "PII_DETECTED")
    words = [word for code in (*codes, *more) for word in ("--finding", code)]
    path = ask("x" * 256, tenant={"id": "t" * 256}, request_id="r")
    record = decided(*words, stdin=path)
    text = ticket()

    assert len(text) <= MAX_TICKET_LENGTH + 1
    assert record["decision_id"] in text


def test_a_ticket_over_the_limit_is_cut_and_names_the_command_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = decided(UNCLEAR)
    monkeypatch.setattr("demur.audit.report.MAX_TICKET_LENGTH", 300)
    text = ticket()

    assert len(text) <= 301
    assert text.endswith(f"… cut; `demur explain {record['decision_id']}` tells all of it\n")


def test_a_long_sentence_is_cut_too(monkeypatch: pytest.MonkeyPatch) -> None:
    decided(LARGE)
    monkeypatch.setattr("demur.audit.report._MAX_LINE_LENGTH", 10)

    assert "- **Now** Supply wha…\n" in ticket()

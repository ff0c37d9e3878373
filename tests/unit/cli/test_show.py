import json

import pytest
from commandline import demur
from desk import LARGE, RISKY, SMALL, ask, decided, set_policy

pytestmark = pytest.mark.usefixtures("desk")


def actions(*words: object) -> list[str]:
    ran = demur("show", "--json", *words)
    assert ran.status == 0, ran.err
    return [json.loads(line)["action_type"] for line in ran.out.splitlines()]


def test_one_decision_says_what_was_asked_by_whom_when_and_by_which_policy() -> None:
    record = decided(stdin=ask("store_credit", request_id="r-1"))
    ran = demur("show", "last")

    assert ran.status == 0
    assert f"\n  id   {record['decision_id']} (tenant default, number 1 of its chain)\n" in ran.out
    assert ran.out.endswith(
        "  what store_credit\n"
        "  who  agent:billing, request r-1\n"
        f"  when {record['created_at']}\n"
        "  by   support-desk 1.0.0 (enforce)\n"
    )


def test_a_later_attempt_says_what_it_continues() -> None:
    first = decided(LARGE)["decision_id"]
    decided(LARGE, "--continues", "last")

    assert demur("show", "last").out.endswith(f"  from {first} (attempt 2)\n")


def test_a_request_of_nobody_says_so() -> None:
    decided(stdin='{"action": {"type": "refund", "amount": {"value": 2, "currency": "USD"}}}')
    out = demur("show", "last").out

    assert "  what refund of 2 USD\n  who  nobody named\n" in out


def test_what_was_erased_is_not_made_up() -> None:
    decided(SMALL)
    demur("audit", "erase", "--subject", "agent:billing", "--yes")

    assert "  who  erased\n" in demur("show", "last").out


def test_the_list_has_the_newest_first() -> None:
    for name in (SMALL, LARGE):
        decided(name)
    ran = demur("show")
    head, *rows, count = ran.out.splitlines()

    assert head.split() == ["DECISION", "TIME", "(UTC)", "TENANT", "VERDICT", "ACTION", "CODES"]
    assert [row.split()[4] for row in rows] == ["ESCALATE", "ALLOW"]
    assert "refund 900 USD  REFUND_OVER_ESCALATION_LIMIT" in rows[0]
    assert count == "2 decisions"


def test_the_list_says_if_there_are_more() -> None:
    for _ in range(3):
        decided(SMALL)

    assert demur("show", "--last", 2).out.endswith("\nthe newest 2 decisions; --last shows more\n")
    assert demur("show", "--last", 3).out.endswith("\n3 decisions\n")
    assert demur("show", "--last").out.endswith("\n3 decisions\n")


def test_advisory_decisions_are_marked() -> None:
    set_policy("mode: enforce", "mode: advisory")
    decided(RISKY)

    assert " DENY (advisory)  refund 60 USD " in demur("show").out


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), ["delete_tickets", "close_account", "refund"]),
        (("--verdict", "ALLOW"), ["refund"]),
        (("--code", "DESTRUCTIVE_ACTION"), ["delete_tickets"]),
        (("--action", "close_account"), ["close_account"]),
        (("--tenant", "acme"), ["close_account"]),
        (("--subject", "agent:billing", "--last", 1), ["delete_tickets"]),
        (("--subject", "agent:other"), []),
        (("--since", "1h"), ["delete_tickets", "close_account", "refund"]),
        (("--since", "2020-01-01", "--until", "2020-02-01"), []),
        (("--until", "1h"), []),
    ],
)
def test_filters_choose_among_decisions(words: tuple[object, ...], wanted: list[str]) -> None:
    decided(SMALL)
    decided("--tenant", "acme", stdin=ask("close_account"))
    decided(stdin=ask("delete_tickets"))

    assert actions(*words) == wanted


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["last", "--verdict", "DENY"], "--verdict filters decisions, and cannot be combined"),
        (["last", "--last"], "--last filters decisions"),
        (["--last", "0"], "--last must be above 0, not `0`"),
        (["--since", "soon"], "`soon` is not a time"),
    ],
)
def test_words_that_make_no_sense_are_errors(words: list[str], problem: str) -> None:
    ran = demur("show", *words)

    assert ran.status == 1
    assert problem in ran.err

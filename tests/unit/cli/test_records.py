import json

import pytest
from commandline import demur
from desk import LARGE, SMALL, ask, decided, setting, signer
from store_records import make_record

from demur.audit.story import format_amount
from demur.cli.records import describe_record
from demur.cli.terminal import Paint
from demur.codes.vocabulary import DecisionOutput, Verdict
from demur.model.record import Amount

pytestmark = pytest.mark.usefixtures("desk")


def shown(name: str, *more: str) -> str:
    ran = demur("show", name, "--json", *more)
    assert ran.status == 0, ran.err
    record: dict[str, str] = json.loads(ran.out)
    return record["decision_id"]


def test_a_decision_is_found_by_id_beginning_last_and_request() -> None:
    first = decided(stdin=ask("refund", request_id="r-1"))["decision_id"]
    last = decided(SMALL)["decision_id"]

    assert shown(first) == shown(first.lower()) == shown(first[:-1]) == first
    assert shown("request:r-1") == first
    assert shown("last") == last


def test_a_tenant_s_decisions_are_its_own() -> None:
    ours = decided("--tenant", "acme", stdin=ask("refund", request_id="r-1"))["decision_id"]
    decided(SMALL)

    assert shown("last", "--tenant", "acme") == ours
    assert shown("request:r-1", "--tenant", "acme") == ours
    ran = demur("show", ours, "--tenant", "other")
    assert f"there is no decision `{ours}` of tenant `other`" in ran.err


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nothing", "there is no decision `nothing`"),
        ("", "there is no decision ``"),
        ("request:r", "there is no decision on a request `r` of tenant `default`"),
    ],
)
def test_what_is_not_there_is_said_in_full(name: str, problem: str) -> None:
    ran = demur("show", name)

    assert (ran.status, ran.out) == (1, "")
    assert ran.err == f"error: {problem}\n  help: `demur show` lists the newest ones\n"


def test_an_empty_store_has_no_last_one() -> None:
    assert "there is no decision yet" in demur("explain", "last").err


def test_a_beginning_that_several_have_is_not_enough() -> None:
    decided(SMALL)
    decided(SMALL)

    assert "several decisions begin with `0`" in demur("show", "0").err


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, ""),
        (Amount(value=20, currency="USD"), "20 USD"),
        (Amount(value=0.5, currency=None), "0.5"),
        (Amount(value=None, currency="USD"), "? USD"),
    ],
)
def test_an_amount_is_shown_as_it_was_asked_for(amount: Amount | None, text: str) -> None:
    assert format_amount(make_record(amount=amount)) == text


def test_who_lifted_a_code_is_not_known_after_erasure() -> None:
    record = make_record(
        verdict=Verdict.ALLOW,
        decision_output=DecisionOutput.ALLOW_EXECUTE,
        refusal_class=None,
        reason_codes=(),
        resolved_codes=("APPROVAL_REQUIRED",),
        lifted_by=("g-1",),
    )
    text = describe_record(record, Paint(), "x")

    assert "  lift APPROVAL_REQUIRED by grant (g-1)\n" in text


def test_a_grant_that_counts_by_now_is_not_shown_as_void() -> None:
    key = signer()
    decided(LARGE)
    before = demur("approve", "last", "--key", key)
    setting('keys = "mary.trusted.json"')
    after = demur("approve", "last", "--key", key)

    assert "  void grant " in before.out
    assert "  lift REFUND_OVER_ESCALATION_LIMIT by user:mary (" in after.out
    assert "void" not in after.out

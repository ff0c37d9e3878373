import json
from pathlib import Path

import pytest
from commandline import Ran, demur
from desk import LARGE, RISKY, SMALL, UNCLEAR, ask, decided, newest, set_policy, setting, signer

pytestmark = pytest.mark.usefixtures("desk")


@pytest.fixture
def mary() -> Path:
    key = signer()
    setting('keys = "mary.trusted.json"')
    return key


def approve(key: Path, *words: object) -> Ran:
    return demur("approve", "last", "--key", key, *words)


def test_it_lifts_what_holds_one_decision_back(mary: Path) -> None:
    before = decided(LARGE)
    ran = approve(mary, "--for", "8h")
    after = newest()
    first, *rest = ran.out.splitlines()

    assert (ran.status, ran.err) == (0, "")
    assert first.startswith(
        "user:mary lifts REFUND_OVER_ESCALATION_LIMIT for agent:billing, until "
    )
    assert rest[0] == "ALLOW_EXECUTE (ALLOW, nothing refuses)"
    assert f"  id   {after['decision_id']} (resolves {before['decision_id']})" in rest
    assert rest[-1] == f"  demur decide FILE --continues {after['decision_id']}"
    assert after["basis"] == "resolution"


def test_the_same_request_then_passes_and_another_one_does_not(mary: Path) -> None:
    before = decided(LARGE)["decision_id"]
    approve(mary)
    same = decided(LARGE, "--continues", before)
    larger = json.loads(Path(LARGE).read_text(encoding="utf-8"))
    larger["action"]["amount"]["value"] = 9000
    other = decided("--continues", before, stdin=json.dumps(larger))

    assert (same["verdict"], same["resolved_codes"]) == ("ALLOW", ["REFUND_OVER_ESCALATION_LIMIT"])
    assert other["verdict"] == "ESCALATE"
    assert other["ignored_grants"][0]["why"] == "out_of_scope"


def test_the_grant_covers_this_request_and_these_codes_alone(mary: Path) -> None:
    before = decided(LARGE, "--finding", "UNVERIFIED_TOOL")
    approve(mary)
    after = newest()
    [grant] = after["grants"]

    assert grant["codes"] == ["REFUND_OVER_ESCALATION_LIMIT"]
    assert grant["scope"] == {key: before["scope"][key] for key in ("action", "tenant", "request")}
    assert grant["granted_to"] == "agent:billing"
    assert after["reason_codes"] == ["UNVERIFIED_TOOL"]


def test_a_partly_lifted_decision_has_its_own_status(mary: Path) -> None:
    decided(LARGE, "--finding", "UNVERIFIED_TOOL")
    ran = approve(mary)

    assert (ran.status, ran.out.splitlines()[1]) == (4, "NEED_CONTEXT (ESCALATE, WORKFLOW_BLOCK)")
    assert "ask again" not in ran.out


def test_a_key_that_nobody_trusts_lifts_nothing_and_it_is_said_why() -> None:
    key = signer()
    decided(LARGE)
    ran = approve(key)

    assert ran.status == 4
    assert ran.out.startswith(
        "the grant was rejected: unknown key\n"
        "  help: `keys` in demur.toml lists the trusted keys; mary is not among them\n"
        "NEED_CONTEXT (ESCALATE, WORKFLOW_BLOCK)\n"
    )


def test_another_key_under_the_same_name_lifts_nothing(mary: Path) -> None:
    mary.unlink()
    Path("mary.trusted.json").rename("old.json")
    other = signer()
    Path("old.json").rename("mary.trusted.json")
    decided(LARGE)
    ran = approve(other)

    assert ran.status == 4
    assert "the grant was rejected: bad signature\n  help: the trusted key `mary` is" in ran.out


def test_a_revoked_or_otherwise_void_grant_needs_no_advice(mary: Path) -> None:
    trusted = Path("mary.trusted.json")
    text = trusted.read_text(encoding="utf-8")
    trusted.write_text(text.replace("user:mary", "user:eve"), encoding="utf-8")
    decided(LARGE)
    ran = approve(mary)

    assert ran.out.startswith("the grant was rejected: wrong holder\nNEED_CONTEXT ")


def test_json_is_the_new_record(mary: Path) -> None:
    decided(LARGE)
    ran = approve(mary, "--json")

    assert json.loads(ran.out) == newest()


def test_another_kind_of_grant_can_be_given(mary: Path) -> None:
    decided(stdin=ask("change_address"))
    ran = approve(mary)
    again = approve(mary, "--kind", "authorization")

    assert ran.err == (
        "error: a grant of approval does not lift AUTHORIZATION_MISSING (WORKFLOW_BLOCK)\n"
        "  help: try --kind authorization\n"
    )
    assert (ran.status, again.status) == (1, 0)


@pytest.mark.parametrize(
    ("request_text", "problem"),
    [
        (SMALL, "is ALLOW, so it needs no approval"),
        (
            RISKY,
            (
                "a grant of approval does not lift CHARGEBACK_RISK_BLOCK (HARD_BLOCK)\n"
                "  help: no grant lifts it\n"
            ),
        ),
        (
            UNCLEAR,
            (
                "so nobody can approve it\n"
                "  help: Supply what is missing: evidence.chargeback_risk.\n"
            ),
        ),
    ],
)
def test_what_cannot_be_approved_says_why(mary: Path, request_text: str, problem: str) -> None:
    decided(request_text)
    ran = approve(mary)

    assert ran.status == 1
    assert problem in ran.err


def test_nobody_can_be_granted_anything_without_a_name(mary: Path) -> None:
    decided(stdin='{"action": {"type": "close_account"}}')

    assert "the request names no subject" in approve(mary).err


def test_nobody_approves_their_own_request() -> None:
    key = signer("billing")
    subject = {"type": "user", "id": "billing"}
    decided(stdin=ask("close_account", subject=subject))

    assert "a key holder cannot grant to themselves" in approve(key).err


def test_what_was_erased_cannot_be_approved(mary: Path) -> None:
    decided(LARGE)
    demur("audit", "erase", "--subject", "agent:billing", "--yes")

    assert "was erased, so it cannot be approved" in approve(mary).err


def test_in_advisory_mode_the_status_is_that_nothing_binds(mary: Path) -> None:
    set_policy("mode: enforce", "mode: advisory")
    decided(LARGE)

    assert approve(mary).status == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [(["--for", "soon"], "`soon` is not a period"), (["--tenant", "acme"], "there is no decision")],
)
def test_bad_words_say_what_is_meant(mary: Path, words: list[str], problem: str) -> None:
    decided(LARGE)

    assert problem in approve(mary, *words).err


def test_a_key_that_may_not_give_this_says_so() -> None:
    key = signer("tom", "--kind", "scope")
    decided(LARGE)

    assert "the key `tom` may not grant `approval`" in approve(key).err

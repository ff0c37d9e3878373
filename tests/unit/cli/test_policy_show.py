import json
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import demur
from small_policies import rule, written

EXAMPLE = Path(__file__).parents[3] / "examples/policies/support.yaml"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def file(text: str) -> str:
    Path("p.yaml").write_text(text, encoding="utf-8")
    return "p.yaml"


def test_the_head_says_what_holds_for_the_whole_policy() -> None:
    lines = demur("policy", "show", EXAMPLE).out.splitlines()

    assert lines[0] == "support 1.0.0 (enforce)"
    assert lines[1].startswith("digest  sha256:")
    assert lines[2:5] == [
        "default ESCALATE  NO_MATCH_DEFAULT_ESCALATE",
        "rates   1 EUR = 1.08 USD, 1 GBP = 1.27 USD",
        "shadow  JAILBREAK_WRAPPER: help articles quote such texts",
    ]
    assert lines[-1] == "13 of 13 rules"


def test_rules_stand_by_stage_with_their_condition_in_words() -> None:
    out = demur("policy", "show", EXAMPLE).out

    assert (
        "\nHARD_BLOCKS\n"
        "  R_CHARGEBACK         DENY  CHARGEBACK_RISK_BLOCK\n"
        "    if action.type is refund and evidence.chargeback_risk is over 0.8\n"
    ) in out
    assert "REFUND_PATTERN_ANOMALY (shadow: does not count)\n" in out
    assert out.index("REQUIREMENTS") < out.index("HARD_BLOCKS") < out.index("ALLOW_PATHS")


def test_only_rules_that_can_apply_to_an_action_are_shown() -> None:
    out = demur("policy", "show", EXAMPLE, "--action", "change_email").out

    assert "R_TAKEOVER" in out
    assert "R_CHARGEBACK" not in out
    assert "\nESCALATIONS\n" not in out
    assert out.endswith("\n3 of 13 rules can apply to `change_email`\n")


def test_limits_stand_beside_what_they_allow() -> None:
    limited = rule(
        {}, "ALLOW", ["DESTRUCTIVE_ACTION"], constraints=["move to trash", "one at a time"]
    )
    out = demur("policy", "show", file(written(limited, mode="advisory"))).out

    assert out.startswith("small 1 (advisory)\n")
    assert "  R0  ALLOW  DESTRUCTIVE_ACTION; move to trash, one at a time\n    if always\n" in out
    assert "rates" not in out


def test_a_policy_without_rules_is_shown_too() -> None:
    assert demur("policy", "show", file(written())).out.endswith("\n\n0 of 0 rules\n")


def test_json_holds_the_same() -> None:
    told = json.loads(demur("policy", "show", "--json", "--action", "login", EXAMPLE).out)

    assert (told["policy_id"], told["mode"], told["rules"]) == ("support", "enforce", [])
    assert told["default"]["reason_codes"] == ["NO_MATCH_DEFAULT_ESCALATE"]
    first = json.loads(demur("policy", "show", "--json", EXAMPLE).out)["rules"][0]
    assert first["id"] == "R_AMOUNT_NEEDED"
    assert first["if"] == "action.type is one of (refund, purchase) and amount_usd is missing"
    assert first["then"] == {
        "verdict": "ESCALATE",
        "reason_codes": ["SCOPE_MISSING"],
        "missing": ["amount_usd"],
    }


def test_verdicts_have_their_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = demur("policy", "show", EXAMPLE).out

    assert "\x1b[31mDENY\x1b[0m  CHARGEBACK_RISK_BLOCK" in out
    assert "\x1b[32mALLOW\x1b[0m\n" in out


def test_a_policy_that_cannot_be_used_is_an_error() -> None:
    ran = demur("policy", "show", "gone.yaml")

    assert (ran.status, ran.out) == (1, "")
    assert "gone.yaml: cannot read the policy" in ran.err


def test_an_organisation_s_codes_are_known(acme_text: Callable[..., str]) -> None:
    policy = file(written(rule({}, "DENY", ["acme.com/KYC_EXPIRED"])))
    Path("acme.json").write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}), encoding="utf-8")

    assert demur("policy", "show", policy).status == 1
    assert "KYC_EXPIRED" in demur("policy", "show", "--registry", "acme.json", policy).out


def test_what_no_terminal_can_print_is_escaped() -> None:
    out = demur("policy", "show", file(written(rule({"request_id": "\x1b"}, id="\x1b[31m")))).out

    assert "\x1b" not in out
    assert r"\x1b[31m" in out

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command_line import demur
from support.small_policies import rule, written

EXAMPLE = Path(__file__).parents[3] / "examples/policies/support.yaml"
BROKEN = "schema_version: policy.v1\npolicy_id: p\npolicy_version: 1.0\nrule: []\nrules: []\n"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def file(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_a_policy_that_can_be_used_is_counted() -> None:
    ran = demur("policy", "validate", EXAMPLE, file("one.yaml", written(rule({}))))

    assert ran.status == 0
    assert ran.out == (
        f"ok {EXAMPLE}: support 1.0.0, 13 rules (1 in shadow)\nok one.yaml: small 1, 1 rule\n"
    )


def test_every_problem_of_every_file_is_reported_with_its_place() -> None:
    ran = demur("policy", "validate", file("bad.yaml", BROKEN), "gone.yaml", EXAMPLE)

    assert ran.status == 1
    assert "bad.yaml:4:1: error: unknown key `rule`\n  help: did you mean `rules`?\n" in ran.out
    assert "bad.yaml:3:17: error: `policy_version` must be a text\n  help: quote it\n" in ran.out
    assert "\nbad.yaml: 2 problems\n" in ran.out
    assert "gone.yaml: error: cannot read the policy: no such file" in ran.out
    assert "\ngone.yaml: 1 problem\n" in ran.out
    assert "\nok " in ran.out


def test_json_is_one_object_for_each_file() -> None:
    ran = demur("policy", "validate", "--json", EXAMPLE, file("bad.yaml", BROKEN))
    good, bad = json.loads(ran.out)

    assert ran.status == 1
    assert (good["ok"], good["rules"], good["shadow_rules"]) == (True, 13, 1)
    assert good["digest"].startswith("sha256:")
    assert not bad["ok"]
    assert set(bad["problems"][0]) == {"where", "problem", "help"}


def test_an_organisation_can_use_its_own_codes(acme_text: Callable[..., str]) -> None:
    policy = file("own.yaml", written(rule({}, "DENY", ["acme.com/KYC_EXPIRED"])))
    registry = file("acme.json", acme_text({"code": "acme.com/KYC_EXPIRED"}))

    assert demur("policy", "validate", policy).status == 1
    assert demur("policy", "validate", "--registry", registry, policy).status == 0


def test_unprintable_characters_are_escaped_by_validate() -> None:
    ran = demur("policy", "validate", file("odd\x1b.yaml", '"a\\x1bb": 1'))

    assert "\x1b" not in ran.out
    assert r"odd\x1b.yaml:1:1: error: unknown key `a\x1bb`" in ran.out


def file_policy_show(text: str) -> str:
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


def test_show_lists_constraints_next_to_the_codes_they_allow() -> None:
    limited = rule(
        {}, "ALLOW", ["DESTRUCTIVE_ACTION"], constraints=["move to trash", "one at a time"]
    )
    out = demur("policy", "show", file_policy_show(written(limited, mode="advisory"))).out

    assert out.startswith("small 1 (advisory)\n")
    assert "  R0  ALLOW  DESTRUCTIVE_ACTION; move to trash, one at a time\n    if always\n" in out
    assert "rates" not in out


def test_a_policy_without_rules_is_shown_too() -> None:
    assert demur("policy", "show", file_policy_show(written())).out.endswith("\n\n0 of 0 rules\n")


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
    policy = file_policy_show(written(rule({}, "DENY", ["acme.com/KYC_EXPIRED"])))
    Path("acme.json").write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}), encoding="utf-8")

    assert demur("policy", "show", policy).status == 1
    assert "KYC_EXPIRED" in demur("policy", "show", "--registry", "acme.json", policy).out


def test_unprintable_characters_are_escaped_by_show() -> None:
    out = demur(
        "policy", "show", file_policy_show(written(rule({"request_id": "\x1b"}, id="\x1b[31m")))
    ).out

    assert "\x1b" not in out
    assert r"\x1b[31m" in out

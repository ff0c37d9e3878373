import json
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import demur
from small_policies import rule, written

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


def test_every_problem_of_every_file_is_told_with_its_place() -> None:
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


def test_what_no_terminal_can_print_is_escaped() -> None:
    ran = demur("policy", "validate", file("odd\x1b.yaml", '"a\\x1bb": 1'))

    assert "\x1b" not in ran.out
    assert r"odd\x1b.yaml:1:1: error: unknown key `a\x1bb`" in ran.out

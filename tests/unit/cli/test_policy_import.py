import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Ran, demur

from demur.codes.registry import Registry
from demur.policy.loader import load_policy

OLD = """\
schema_version: policy.v1
policy_id: refunds
policy_version: "1.0"
defaults:
  mode: enforce
  default_verdict: ESCALATE
  default_reason_code: NO_MATCH_DEFAULT_ESCALATE
rules:
  - id: R1
    stage: HARD_BLOCKS
    when: { action_type: support.refund }
    if: { evidence.score_gte: 0.7 }
    then: { verdict: ABSTAIN, reason_codes: [CHARGEBACK_RISK_BLOCK] }
"""
PLAIN = """\
schema_version: policy.v1
policy_id: closing
policy_version: "1.0"
defaults:
  mode: enforce
  default_verdict: ESCALATE
  default_reason_code: NO_MATCH_DEFAULT_ESCALATE
rules:
  - id: R1
    stage: REQUIREMENTS
    if: { evidence.ticket_is: null }
    then: { verdict: DENY, reason_codes: [SCOPE_MISSING] }
"""
OWN = OLD.replace("CHARGEBACK_RISK_BLOCK", "SANCTIONED_COUNTRY")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.yml"
    path.write_text(OLD, encoding="utf-8")
    return path


def own(path: Path, *words: object) -> Ran:
    path.write_text(OWN, encoding="utf-8")
    return demur("policy", "import", path, "--domain", "acme.com", *words)


def test_the_policy_goes_to_stdout_and_diagnostics_to_stderr(old: Path) -> None:
    ran = demur("policy", "import", old)

    assert ran.status == 0
    assert ran.out.startswith(f"# Imported from {old}.\n")
    assert "then: { verdict: DENY, reason_codes: [CHARGEBACK_RISK_BLOCK] }" in ran.out
    assert f"{old}:13:22: warning[verdict] ABSTAIN in HARD_BLOCKS becomes DENY" in ran.err
    assert f"{old}:9:5: note[evidence-needed] a request without `evidence.score`" in ran.err
    assert "\n  help: `--require-evidence` asks for it\n" in ran.err
    assert ran.err.endswith("0 errors, 1 warning, 2 notes\n")


def test_an_import_without_differences_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "plain.yml"
    path.write_text(PLAIN, encoding="utf-8")
    ran = demur("policy", "import", "--strict", path)

    assert (ran.status, ran.err) == (0, "no differences\n")


def test_strict_counts_warnings(old: Path) -> None:
    assert demur("policy", "import", "--strict", old).status == 1


def test_something_that_is_left_out_is_an_error(old: Path) -> None:
    old.write_text(OLD.replace("0.7", "much"), encoding="utf-8")
    ran = demur("policy", "import", old)

    assert ran.status == 1
    assert "rules: []" in ran.out
    assert "error[left-out] rule `R1` is left out: `evidence.score_gte` takes a number" in ran.err


def test_the_file_that_is_written_can_be_used(old: Path, tmp_path: Path) -> None:
    out = tmp_path / "new.yaml"
    ran = demur("policy", "import", old, "--out", out, "--require-evidence")

    assert (ran.status, ran.out) == (0, "")
    assert [rule.id for rule in load_policy(out).rules] == ["NEEDS_SUPPORT_REFUND", "R1"]
    assert demur("policy", "validate", out).status == 0


def test_a_file_that_exists_is_not_written_over(old: Path) -> None:
    ran = demur("policy", "import", old, "--out", old)

    assert ran.status == 1
    assert f"error: {old}: the file already exists\n" in ran.err
    assert old.read_text(encoding="utf-8") == OLD


@pytest.mark.parametrize("option", ["--out", "--registry-out"])
@pytest.mark.parametrize("name", ["gone/new", "nul\0"])
def test_a_file_that_cannot_be_written_is_an_error(old: Path, option: str, name: str) -> None:
    more = [] if option == "--registry-out" else ["--registry-out", old.parent / "acme.json"]
    ran = own(old, *more, option, old.parent / name)

    assert ran.status == 1
    assert "cannot write: " in ran.err


def test_new_codes_need_a_domain_and_a_place(old: Path) -> None:
    ran = own(old)

    assert ran.status == 1
    assert (
        "1 code must be added to a registry\n  help: choose the file with `--registry-out FILE`"
        in ran.err
    )
    ran = demur("policy", "import", old)
    assert ran.status == 1
    assert f"error: {old}:9:5: `SANCTIONED_COUNTRY` is not in any registry\n" in ran.err
    assert "--domain example.com" in ran.err


def test_new_codes_go_to_a_registry_that_loads(old: Path, tmp_path: Path) -> None:
    listing = {"codes": [{"code": "SANCTIONED_COUNTRY", "description": "No trade there."}]}
    codes, registry, out = (tmp_path / name for name in ("codes.json", "acme.json", "new.yaml"))
    codes.write_text(json.dumps(listing), encoding="utf-8")
    ran = own(old, "--codes", codes, "--registry-out", registry, "--out", out)
    known = Registry.load(registry)

    assert ran.status == 0
    assert (
        "note[code-renamed] `SANCTIONED_COUNTRY` becomes `acme.com/SANCTIONED_COUNTRY`" in ran.err
    )
    assert known["acme.com/SANCTIONED_COUNTRY"].description == "No trade there."
    assert known["acme.com/SANCTIONED_COUNTRY"].refusal_class == "HARD_BLOCK"
    [rule] = load_policy(out, registry=known).rules
    assert rule.then.reason_codes == ("acme.com/SANCTIONED_COUNTRY",)


def registry_file(path: Path, **head: Any) -> Path:
    row = {
        "code": "acme.com/KYC",
        "parent": "CONTEXT_MISSING",
        "description": "x",
        "since": "1.0.0",
    }
    file = {"schema_version": "reason_codes.v1", "version": "2.1.0", "domain": "acme.com"}
    path.write_text(json.dumps({**file, "codes": [row], **head}), encoding="utf-8")
    return path


def test_a_registry_that_exists_is_added_to(old: Path, tmp_path: Path) -> None:
    registry = registry_file(tmp_path / "acme.json")
    ran = own(old, "--registry-out", registry)
    raw = json.loads(registry.read_text(encoding="utf-8"))

    assert ran.status == 0
    assert raw["version"] == "2.1.0"
    assert [row["code"] for row in raw["codes"]] == ["acme.com/KYC", "acme.com/SANCTIONED_COUNTRY"]
    assert raw["codes"][1]["since"] == "2.1.0"

    again = own(old, "--registry-out", registry, "--registry", registry)
    assert again.status == 0
    assert "code-renamed" not in again.err
    assert json.loads(registry.read_text(encoding="utf-8")) == raw


def test_codes_of_one_domain_stay_in_one_file(old: Path, tmp_path: Path) -> None:
    registry = registry_file(tmp_path / "acme.json")
    ran = own(old, "--registry", registry, "--registry-out", tmp_path / "other.json")

    assert ran.status == 1
    assert f"the codes of `acme.com` are in {registry}" in ran.err
    assert own(old, "--registry", registry, "--json").status == 1


def test_codes_do_not_go_into_the_file_of_another(old: Path, tmp_path: Path) -> None:
    rows: list[Any] = []
    registry = registry_file(tmp_path / "other.json", domain="other.org", codes=rows)
    ran = own(old, "--registry-out", registry)

    assert ran.status == 1
    assert f"{registry}: the file holds the codes of `other.org`" in ran.err


def test_json_holds_everything(old: Path) -> None:
    ran = own(old, "--json")
    got = json.loads(ran.out)

    assert (ran.status, ran.err) == (0, "")
    assert got["policy"].startswith("# Imported from ")
    assert [row["code"] for row in got["registry"]["codes"]] == ["acme.com/SANCTIONED_COUNTRY"]
    assert set(got["remarks"][0]) == {"kind", "level", "where", "message", "help", "rule"}
    assert json.loads(demur("policy", "import", "--json", write(old, OLD)).out)["registry"] is None


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_an_unreadable_policy_or_code_file_is_an_error(old: Path, tmp_path: Path) -> None:
    ran = demur("policy", "import", tmp_path / "gone.yml")
    assert ran.status == 1
    assert "cannot read the policy: no such file" in ran.err

    ran = demur("policy", "import", old, "--codes", tmp_path / "gone.json")
    assert ran.status == 1
    assert "cannot read the codes: no such file" in ran.err

    ran = demur("policy", "import", write(old, "schema_version: policy.v0\n"))
    assert ran.status == 1
    assert f"error: {old}:1:17: unknown schema version `policy.v0`\n" in ran.err

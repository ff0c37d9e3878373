import json
from pathlib import Path

from commandline import demur

from demur.codes.registry import CORE_PATH, Registry

KYC = ("--parent", "CONTEXT_MISSING", "--description", "The identity check is out of date.")


def test_the_first_code_starts_a_registry_that_loads(tmp_path: Path) -> None:
    path = tmp_path / "acme.json"
    ran = demur("codes", "new", "acme.com/KYC_EXPIRED", "--registry", path, *KYC)

    assert ran.status == 0
    assert Registry.load(path)["acme.com/KYC_EXPIRED"].parent == "CONTEXT_MISSING"


def test_the_next_code_joins_it(tmp_path: Path) -> None:
    path = tmp_path / "acme.json"
    demur("codes", "new", "acme.com/KYC_EXPIRED", "--registry", path, *KYC)
    ran = demur(
        *("codes", "new", "acme.com/KYC_REVOKED", "--registry", path, *KYC),
        *("--class", "HARD_BLOCK", "--severity", "high", "--alias", "kyc was revoked"),
    )

    assert ran.status == 1
    assert "a HARD_BLOCK cannot advise" in ran.err
    assert len(json.loads(path.read_text())["codes"]) == 1, "a broken file is never written"

    assert (
        demur(
            *("codes", "new", "acme.com/KYC_OLD", "--registry", path, *KYC),
            *("--alias", "kyc is too old"),
        ).status
        == 0
    )
    assert Registry.load(path).code_of_phrase("sorry, KYC is too old") == "acme.com/KYC_OLD"


def test_a_dry_run_prints_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "acme.json"
    ran = demur("codes", "new", "acme.com/KYC_EXPIRED", "--registry", path, *KYC, "--dry-run")

    assert json.loads(ran.out)["domain"] == "acme.com"
    assert not path.exists()


def test_a_core_code_takes_the_facts_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "core.json"
    path.write_text(CORE_PATH.read_text(encoding="utf-8"), encoding="utf-8")
    ran = demur("codes", "new", "CUSTOMER_UNKNOWN", "--registry", path, *KYC)
    [row] = [r for r in json.loads(path.read_text())["codes"] if r["code"] == "CUSTOMER_UNKNOWN"]

    assert ran.status == 0
    assert row["refusal_class"] == "WORKFLOW_BLOCK"
    assert row["title"] == "Customer unknown"


def test_bad_names_and_missing_parts_say_what_helps(tmp_path: Path) -> None:
    path = tmp_path / "acme.json"
    core = tmp_path / "core.json"
    core.write_text(CORE_PATH.read_text(encoding="utf-8"), encoding="utf-8")

    assert "has no domain" in demur("codes", "new", "KYC", "--registry", path, *KYC).err
    assert (
        "a number in a code"
        in demur("codes", "new", "acme.com/REFUND_500_USD", "--registry", path, *KYC).err
    )
    assert (
        "needs `--parent`"
        in demur("codes", "new", "KYC_OLD", "--registry", core, "--description", "x").err
    )

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.command_line import demur

from demur.cli.main import main
from demur.codes.export import EXPORT_FORMATS
from demur.codes.meaning import explain
from demur.codes.registry import CORE_PATH, Registry
from demur.codes.vocabulary import RefusalClass, Severity, Surface

Capture = pytest.CaptureFixture[str]


def listed(capsys: Capture, *options: str) -> list[dict[str, object]]:
    assert main(["codes", "list", "--json", *options]) == 0
    entries: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return entries


def test_the_table_lists_every_code(core: Registry, capsys: Capture) -> None:
    assert main(["codes", "list"]) == 0

    head, *rows, total = capsys.readouterr().out.splitlines()
    assert head.split() == ["CODE", "CLASS", "SEVERITY", "FAMILY", "TITLE"]
    assert [row.split()[0] for row in rows] == [entry.code for entry in core]
    assert total == f"{len(core)} of {len(core)} codes, {core.label}"


def test_a_deprecated_code_and_one_that_allows_are_marked(capsys: Capture) -> None:
    assert main(["codes", "list"]) == 0

    rows = capsys.readouterr().out.splitlines()
    [old] = [row for row in rows if row.startswith("OLD_FRAUD_BLOCK ")]
    [allowing] = [row for row in rows if row.startswith("SUCCESS_MEMORY_SIMILAR_ALLOW ")]
    assert old.startswith("OLD_FRAUD_BLOCK (deprecated) ")
    assert allowing.split()[1] == "allows"


def test_as_json_the_entries_are_whole(core: Registry, capsys: Capture) -> None:
    assert listed(capsys) == json.loads(json.dumps([entry.as_json() for entry in core]))


@pytest.mark.parametrize("refusal_class", RefusalClass)
def test_codes_are_filtered_by_class(refusal_class: str, core: Registry, capsys: Capture) -> None:
    wanted = [entry.code for entry in core if entry.refusal_class == refusal_class]

    assert [entry["code"] for entry in listed(capsys, "--class", refusal_class)] == wanted
    assert wanted


def test_codes_are_filtered_by_severity_surface_and_family(core: Registry, capsys: Capture) -> None:
    found = listed(capsys, "--severity", "high", "--surface", "tool_call", "--family", "guard")

    wanted = [
        entry.code
        for entry in core
        if entry.severity is Severity.HIGH
        and Surface.TOOL_CALL in entry.surfaces
        and entry.family == "guard"
    ]
    assert [entry["code"] for entry in found] == wanted
    assert 0 < len(wanted) < len(core)


def test_an_unknown_family_is_an_error_with_a_guess(capsys: Capture) -> None:
    assert main(["codes", "list", "--family", "gard"]) == 2
    assert "did you mean `guard`?" in capsys.readouterr().err
    assert main(["codes", "list", "--family", "Guard"]) == 0


def test_a_filter_that_nothing_passes_leaves_an_empty_table(
    core: Registry, capsys: Capture
) -> None:
    assert main(["codes", "list", "--family", "runtime", "--class", "SOFT_BLOCK"]) == 0

    head, total = capsys.readouterr().out.splitlines()
    assert head.startswith("CODE")
    assert total.startswith(f"0 of {len(core)} codes")


@pytest.mark.parametrize("option", ["--class", "--surface", "--severity"])
def test_a_word_that_is_not_in_the_list_shows_the_list_in_plain_words(
    option: str, capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["codes", "list", option, "nope"])

    err = capsys.readouterr().err
    assert caught.value.code == 2
    assert f"unknown value `nope` of {option}" in err
    assert "<" not in err


def test_the_explanation_is_printed_as_the_package_gives_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert main(["codes", "explain", "RCE_RISK"]) == 0
    assert capsys.readouterr().out == explain("RCE_RISK") + "\n"


def test_headings_are_coloured_and_text_is_wrapped_to_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(["codes", "explain", "STORAGE_UNAVAILABLE"])
    lines = capsys.readouterr().out.splitlines()

    assert lines[0] == "\x1b[1mSTORAGE_UNAVAILABLE: Storage unavailable\x1b[0m"
    assert "\x1b[1mFacts\x1b[0m" in lines
    assert max(len(line) for line in lines if "\x1b" not in line) <= 50


def test_json_is_the_whole_entry(capsys: pytest.CaptureFixture[str], core: Registry) -> None:
    assert main(["codes", "explain", "RCE_RISK", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(core["RCE_RISK"].as_json()))


def test_an_unknown_code_is_an_error_with_a_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["codes", "explain", "RCE_RISC"]) == 2

    shown = capsys.readouterr()
    assert shown.out == ""
    assert "unknown code `RCE_RISC`" in shown.err
    assert "did you mean `RCE_RISK`?" in shown.err


def core(path: Path, **changes: Any) -> Path:
    """Write the core registry with `CODE__field=value` changes and return its path."""
    raw = json.loads(CORE_PATH.read_text(encoding="utf-8"))
    raw["version"] = changes.pop("version", raw["version"])
    for row in raw["codes"]:
        for name, value in changes.items():
            code, _, field = name.partition("__")
            if row["code"] == code:
                row[field] = value
    path.write_text(json.dumps(raw), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "status", "level"),
    [
        ({}, 0, "none"),
        ({"LOOP_DETECTED__title": "Circling"}, 0, "patch"),
        ({"LOOP_DETECTED__severity": "high"}, 10, "minor"),
        ({"LOOP_DETECTED__advice": "reset_context"}, 11, "major"),
        ({"RCE_RISK__refusal_class": "SOFT_BLOCK"}, 12, "refused"),
    ],
)
def test_the_status_says_how_much_breaks(
    tmp_path: Path, changes: dict[str, Any], status: int, level: str
) -> None:
    new = core(tmp_path / "new.json", **changes)
    ran = demur("codes", "diff", CORE_PATH, new, "--json")

    assert ran.status == status
    assert json.loads(ran.out)["level"] == level


def test_the_text_names_the_code_and_what_became_of_it(tmp_path: Path) -> None:
    ran = demur("codes", "diff", CORE_PATH, core(tmp_path / "n", LOOP_DETECTED__http=409))

    assert "major   LOOP_DETECTED: http: `429` became `409`" in ran.out
    assert "the version does not announce it" in ran.out


def test_a_version_that_announces_it_is_fine(tmp_path: Path) -> None:
    new = core(tmp_path / "n", version="2.0.0", LOOP_DETECTED__http=409)

    assert demur("codes", "diff", CORE_PATH, new).out.endswith("1.2.0 -> 2.0.0: major\n")
    assert (
        "refused"
        in demur("codes", "diff", CORE_PATH, core(tmp_path / "r", RATE_LIMIT__since="2.0.0")).out
    )


def test_a_new_registry_that_breaks_its_own_rules_is_an_error(tmp_path: Path) -> None:
    ran = demur("codes", "diff", CORE_PATH, core(tmp_path / "n", LOOP_DETECTED__grants=["quota"]))

    assert ran.status == 1
    assert "only a WORKFLOW_BLOCK can be lifted by grants" in ran.err


def acme(path: Path, **change: Any) -> Path:
    row = {
        "code": "acme.com/KYC_EXPIRED",
        "description": "The identity check is out of date.",
        "parent": "CONTEXT_MISSING",
        "since": "1.0.0",
        **change,
    }
    raw = {
        "schema_version": "reason_codes.v1",
        "version": "1.0.0",
        "domain": "acme.com",
        "codes": [row],
    }
    path.write_text(json.dumps(raw), encoding="utf-8")
    return path


def test_organisations_are_compared_with_what_they_inherit(tmp_path: Path) -> None:
    old = acme(tmp_path / "old.json")
    spelled = acme(tmp_path / "same.json", refusal_class="WORKFLOW_BLOCK")
    stricter = acme(
        tmp_path / "new.json", refusal_class="HARD_BLOCK", grants=[], advice="change_request"
    )

    assert demur("codes", "diff", old, spelled).status == 0
    assert demur("codes", "diff", old, stricter).status == 11
    assert demur("codes", "diff", stricter, old).status == 12


def test_different_registries_cannot_be_compared(tmp_path: Path) -> None:
    ran = demur("codes", "diff", CORE_PATH, acme(tmp_path / "a.json"))

    assert ran.status == 1
    assert "`core` and `acme.com` are different registries" in ran.err


def test_a_version_that_goes_back_is_reported(tmp_path: Path) -> None:
    ran = demur("codes", "diff", CORE_PATH, core(tmp_path / "n", version="0.9.0"))

    assert "no changes, but the version goes back" in ran.out


@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_each_form_is_printed_as_the_package_gives_it(
    form: str, capsys: pytest.CaptureFixture[str], core: Registry
) -> None:
    assert main(["codes", "export", "--to", form]) == 0
    assert capsys.readouterr().out == EXPORT_FORMATS[form](core)


def test_a_file_gets_the_same_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], core: Registry
) -> None:
    path = tmp_path / "codes.ts"

    assert main(["codes", "export", "--to", "typescript", "--out", str(path)]) == 0
    assert path.read_bytes() == EXPORT_FORMATS["typescript"](core).encode()
    assert capsys.readouterr().out == ""


def test_organisations_codes_are_exported_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], acme_text: Callable[..., str]
) -> None:
    acme, other = tmp_path / "acme.json", tmp_path / "other.json"
    acme.write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}))
    other.write_text(acme_text({"code": "other.org/LATE"}, domain="other.org"))
    words = ["--registry", str(acme), "--registry", str(other)]

    assert main(["codes", "export", "--to", "go", *words]) == 0
    text = capsys.readouterr().out
    assert 'AcmeComKycExpired Code = "acme.com/KYC_EXPIRED"' in text
    assert 'OtherOrgLate Code = "other.org/LATE"' in text


def test_the_default_registry_is_exported_where_none_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    acme_text: Callable[..., str],
) -> None:
    path = tmp_path / "acme.json"
    path.write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}))
    monkeypatch.setenv("DEMUR_REGISTRY", str(path))

    main(["codes", "export", "--to", "csv"])
    assert "\nacme.com/KYC_EXPIRED," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "reason"), [("missing/codes.csv", "no such file"), ("nul\0", "null byte")]
)
def test_a_file_that_cannot_be_written_is_an_error(
    name: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["codes", "export", "--to", "csv", "--out", str(tmp_path / name)]) == 1

    error = capsys.readouterr().err
    assert "cannot write: " in error
    assert reason in error


def test_a_form_must_be_named_and_known(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--to", "cobol"]):
        with pytest.raises(SystemExit) as caught:
            main(["codes", "export", *words])
        assert caught.value.code == 2
    assert "cobol" in capsys.readouterr().err


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

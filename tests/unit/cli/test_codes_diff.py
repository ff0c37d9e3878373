import json
from pathlib import Path
from typing import Any

import pytest
from commandline import demur

from demur.codes.registry import CORE_PATH


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

    assert demur("codes", "diff", CORE_PATH, new).out.endswith("1.1.0 -> 2.0.0: major\n")
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


def test_a_version_that_goes_back_is_said(tmp_path: Path) -> None:
    ran = demur("codes", "diff", CORE_PATH, core(tmp_path / "n", version="0.9.0"))

    assert "no changes, but the version goes back" in ran.out

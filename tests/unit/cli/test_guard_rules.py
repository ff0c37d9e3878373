import json
from pathlib import Path

import pytest
from commandline import demur

RULES = """\
schema_version: guard_rules.v1
surface: input
rules:
  - id: OUR_WORD
    code: TERM_BLOCKLISTED
    action: block
    description: Our secret word.
    pattern: \\bswordfish\\b
    refuse: [the word is swordfish]
    allow: [the word is cod]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_our_own_rules_keep_their_rows() -> None:
    ran = demur("guard", "rules", "output")

    assert ran.status == 0
    assert ran.out.splitlines()[0].split() == ["RULE", "CODE", "ACTION", "DESCRIPTION"]
    assert "refuse and" in ran.out.splitlines()[-1]


def test_rules_in_a_file_are_held_to_their_rows() -> None:
    Path("rules.yaml").write_text(RULES, encoding="utf-8")
    ran = demur("guard", "rules", "input", "--rules", "rules.yaml")

    assert ran.status == 0
    assert ran.out.endswith("1 rules, tested on 1 refuse and 1 allow rows\n")


def test_a_twin_that_its_rule_hits_is_said() -> None:
    Path("rules.yaml").write_text(RULES.replace("is cod", "is a swordfish"), encoding="utf-8")
    ran = demur("guard", "rules", "input", "--rules", "rules.yaml")

    assert ran.status == 1
    assert "error: rule `OUR_WORD` hits its `allow` row `the word is a swordfish`" in ran.out
    assert "  help: it sees `swordfish`" in ran.out
    assert ran.out.endswith(": 1 failed\n")
    said = json.loads(demur("guard", "rules", "input", "--rules", "rules.yaml", "--json").out)
    assert said["rules"][0]["id"] == "OUR_WORD"
    assert len(said["problems"]) == 1


def test_a_row_that_its_rule_misses_needs_no_help() -> None:
    Path("rules.yaml").write_text(RULES.replace("is swordfish", "is carp"), encoding="utf-8")
    ran = demur("guard", "rules", "input", "--rules", "rules.yaml")

    assert "misses its `refuse` row `the word is carp`" in ran.out
    assert "help:" not in ran.out


def test_what_is_no_rule_file_is_said_with_its_place() -> None:
    Path("rules.yaml").write_text(RULES.replace("TERM_", "TREM_"), encoding="utf-8")
    ran = demur("guard", "rules", "input", "--rules", "rules.yaml")

    assert ran.status == 1
    assert ran.err.startswith("error: rules.yaml:5:11: unknown reason code `TREM_BLOCKLISTED`")
    assert demur("guard", "rules", "rate").err == (
        "error: the surface `rate` has no built-in text rules\n"
    )
    Path("rules.yaml").write_text(RULES, encoding="utf-8")
    ran = demur("guard", "rules", "output", "--rules", "rules.yaml")
    assert ran.err == "error: rules.yaml: these are rules for `input`, not for `output`\n"
    assert demur("guard", "rules", "inptu").status == 2

import pytest
from gates import CORE

from demur.errors import UnknownCodeError
from demur.testing.rows import allow_rows, refuse_rows


def test_rows_are_those_of_the_registry() -> None:
    entry = CORE["DESTRUCTIVE_ACTION"]

    assert refuse_rows("DESTRUCTIVE_ACTION", registry=CORE) == [
        ("DESTRUCTIVE_ACTION", row) for row in entry.examples.refuse
    ]
    assert allow_rows(["DESTRUCTIVE_ACTION"], registry=CORE) == [
        ("DESTRUCTIVE_ACTION", row) for row in entry.examples.allow
    ]


def test_a_surface_chooses_the_codes_that_are_seen_there() -> None:
    rows = refuse_rows(surface="skill")

    codes = {code for code, _ in rows}
    assert {"RCE_RISK", "RISKY_IMPORT", "OBFUSCATED_CODE", "SKILL_INJECTION"} <= codes
    assert "CRISIS_ESCALATION" not in codes
    assert refuse_rows("SKILL_INJECTION", surface="input") == []
    assert len(allow_rows()) > len(allow_rows(surface="skill")) > 0


def test_an_unknown_code_is_said() -> None:
    with pytest.raises(UnknownCodeError):
        refuse_rows("MADE_UP")

import pytest

import demur.guards
from demur.errors import InputError
from demur.guards.checking import check
from demur.testing import allow_rows, refuse_rows


def test_a_text_is_enough() -> None:
    [found] = check("code_execution", "rm -rf /srv/data")

    assert found.code == "DESTRUCTIVE_ACTION"
    assert demur.guards.check is check


def test_settings_can_be_given() -> None:
    assert check("code_execution", "rm -rf /srv/data", {"workspace": ["/srv"]}) == []


def test_an_unknown_surface_is_said() -> None:
    with pytest.raises(InputError, match="there is no guard for `inptu`"):
        check("inptu", "x")


@pytest.mark.parametrize(("code", "row"), refuse_rows("CRISIS_ESCALATION", surface="input"))
def test_rows_of_the_registry_are_found(code: str, row: str) -> None:
    assert code in [found.code for found in check("input", row)]


@pytest.mark.parametrize(("code", "row"), allow_rows("CRISIS_ESCALATION", surface="input"))
def test_harmless_twins_pass(code: str, row: str) -> None:
    assert code not in [found.code for found in check("input", row)]

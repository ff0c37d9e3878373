import pytest

from demur.policy.lint import LINT_LEVELS
from demur.policy.page import policy_page
from demur.policy.policy import Operator, Stage
from demur.policy.schema import policy_schema

PAGE = policy_page(policy_schema())


def keys() -> list[str]:
    schema = policy_schema()
    parts = [schema, *(schema["$defs"][name] for name in ("rule", "then", "defaults", "shadow"))]
    return sorted({key for part in parts for key in part["properties"]})


@pytest.mark.parametrize("name", [*keys(), *Operator, *Stage, *LINT_LEVELS, "all", "any", "not"])
def test_everything_that_can_be_written_has_a_row(name: str) -> None:
    assert f"\n| `{name}` | " in PAGE


def test_no_row_is_left_without_a_meaning() -> None:
    assert not [line for line in PAGE.splitlines() if line.endswith("|  |")]


def test_a_key_that_must_stand_says_so() -> None:
    assert "| `policy_id` | text | yes |" in PAGE
    assert "| `mode` | `enforce`, `advisory` |  |" in PAGE
    assert "| `exists` | `true` |" in PAGE

from pathlib import Path

import pytest

from demur.errors import InputError
from demur.integrations.claude_code.pins import keep_pins_output, read_pins, restate_pins_output


def test_pinned_rules_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("never deploy on fridays\n")
    (tmp_path / "b.md").write_text("  \n")
    (tmp_path / "c.md").write_text("ask first")

    pins = read_pins([tmp_path / name for name in ("c.md", "b.md", "a.md")])

    assert pins == ("ask first", "never deploy on fridays")


@pytest.mark.parametrize("content", [b"\xff", b"x" * 100_001])
def test_what_cannot_be_pinned_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rules.md"
    path.write_bytes(content)

    with pytest.raises(InputError):
        read_pins([path])


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_pins([tmp_path / "none.md"])


def test_whoever_summarises_is_told_to_keep_the_rules() -> None:
    assert keep_pins_output(["ask first"])["systemMessage"].endswith("\n\nask first")
    assert keep_pins_output([]) == {}


def test_a_session_that_starts_from_a_summary_hears_the_rules_again() -> None:
    special = restate_pins_output(["ask first"])["hookSpecificOutput"]

    assert special["hookEventName"] == "SessionStart"
    assert special["additionalContext"].endswith("\n\nask first")
    assert restate_pins_output([]) == {}

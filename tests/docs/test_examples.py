"""Every example runs as it stands, and prints what it is there to show."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOWS = {
    "approval.py": "900 USD, risk 0.1: NEED_CONTEXT -> ALLOW_EXECUTE",
    "decide.py": "DENY     FAILURE_MEMORY_SIMILAR_BLOCK",
    "shell_guard.py": "refused: {'DESTRUCTIVE_ACTION': 1, 'RCE_RISK': 1}",
}


def test_no_example_is_left_out() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SHOWS)


@pytest.mark.parametrize("name", SHOWS)
def test_example(name: str) -> None:
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True
    )

    assert SHOWS[name] in ran.stdout
    assert ran.stderr == ""

"""A working folder for the commands that decide, look back and prove."""

from pathlib import Path

import pytest
from support.command_line import demur


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fresh folder of `demur init`, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    assert demur("init").status == 0
    return tmp_path

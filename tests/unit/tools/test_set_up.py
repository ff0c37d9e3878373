"""The recipe of all environments: it shows progress, and says what to do if it cannot go on."""

import sys
from pathlib import Path

import pytest
import set_up


def fake_pip(text: str, status: int = 0) -> list[str]:
    """Return a command that prints what pip would print."""
    return [sys.executable, "-c", f"print({text!r}); raise SystemExit({status})"]


def test_each_package_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "Collecting google-re2==1.1 (from -r requirements/run.txt (line 1))\n"
        "  Downloading google_re2-1.1-cp311.whl (73 kB)\n"
        "Processing /opt/wheels/msgspec-0.22.0-cp311.whl (from -r requirements/run.txt)\n"
        "Installing collected packages: google-re2, msgspec\n"
    )

    assert set_up.install(fake_pip(text), 0, 25) == (0, 2)
    assert capsys.readouterr().out == "  1 of 25: google-re2\n  2 of 25: msgspec\n  installing\n"


def test_the_end_of_a_failed_install_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    status, _ = set_up.install(fake_pip("ERROR: hashes do not match", 1), 0, 25)

    assert status == 1
    assert "ERROR: hashes do not match" in capsys.readouterr().out


def test_an_old_python_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(set_up, "MIN_VERSION", (99,))

    assert set_up.main([".venv-none", "run.txt"]) == 1
    assert capsys.readouterr().err.startswith("error: demur needs Python 3.11 or newer; ")
    assert not Path(".venv-none").exists()


def test_a_python_without_venv_names_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("subprocess.call", lambda _: 1)

    assert set_up.main([str(tmp_path / "env"), "run.txt"]) == 1
    assert "apt install python3-venv" in capsys.readouterr().err

"""Node packages are tested with a Node that is new enough, or skipped with tool and reason."""

import os
from pathlib import Path

import node_tests
import pytest

NEW, OLD = "echo v24.21.0", "echo v20.1.0"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a package in a working folder whose path holds the commands of `place`."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "package-lock.json").write_text("{}")
    (tmp_path / "bin").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return package


def place(name: str, script: str, where: str = "bin") -> None:
    Path(where).mkdir(parents=True, exist_ok=True)
    path = Path(where, name)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_npm_the_tests_are_skipped(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert node_tests.main([folder.name]) == 0
    assert capsys.readouterr().out == "skipped: package: npm is not installed\n"


@pytest.mark.parametrize("code", ["ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "E503"])
def test_without_a_registry_the_tests_are_skipped(
    folder: Path, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place("node", NEW)
    place("npm", f"echo 'npm error code {code}' >&2; exit 1")

    assert node_tests.main([folder.name]) == 0
    assert f"npm cannot reach its registry ({code})" in capsys.readouterr().out


def test_a_lock_file_that_does_not_fit_is_an_error(folder: Path) -> None:
    place("node", NEW)
    place("npm", "echo 'npm error code EUSAGE' >&2; exit 1")

    with pytest.raises(SystemExit, match="npm ci failed in package"):
        node_tests.main([folder.name])


def test_a_failed_test_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place("node", NEW)
    place("npm", 'test "$1" = ci')

    assert node_tests.main([folder.name]) == 1
    assert capsys.readouterr().err == "failed: package\n"


def test_an_old_node_is_replaced_by_the_one_of_npm(folder: Path) -> None:
    place("node", OLD)
    place("npm", f'echo "$1 $PATH" >> {folder.parent}/log')
    place("node", NEW, ".node/node_modules/.bin")

    assert node_tests.main([folder.name]) == 0
    own = str(Path(".node/node_modules/.bin").resolve())
    first, second = Path("log").read_text().splitlines()
    assert first.startswith(f"ci {own}{os.pathsep}")
    assert second.startswith(f"test {own}{os.pathsep}")


def test_a_node_that_npm_does_not_install_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place("node", OLD)
    place("npm", "exit 0")

    assert node_tests.main([folder.name]) == 0
    assert "node 22.18 or newer is needed, and npm installed 20.1.0" in capsys.readouterr().out


def test_what_is_installed_is_installed_once(folder: Path) -> None:
    place("node", NEW)
    place("npm", f'echo "$1" >> {folder.parent}/log')
    (folder / "node_modules").mkdir()
    (folder / "node_modules/.package-lock.json").write_text("{}")

    assert node_tests.main([folder.name]) == 0
    assert Path("log").read_text() == "test\n"

"""What a release must not have stops the check, with the reason."""

import zipfile
from pathlib import Path

import pytest
import release_check
from release_check import ReleaseError, check_wheel, list_licence_problems


def wheel(folder: Path, *names: str, size: int = 10) -> Path:
    path = folder / "demur-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"x" * size)
    return path


def test_a_wheel_of_package_files_passes(tmp_path: Path) -> None:
    check_wheel(wheel(tmp_path, "demur/__init__.py", "demur-1.dist-info/METADATA"))


@pytest.mark.parametrize("name", ["tests/test_it.py", "setup.py", "demur/__pycache__/a.pyc"])
def test_a_wheel_with_other_files_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ReleaseError, match="files outside the package"):
        check_wheel(wheel(tmp_path, "demur/__init__.py", name))


def test_a_wheel_that_is_too_large_is_refused(tmp_path: Path) -> None:
    large = wheel(tmp_path, "demur/data", size=release_check.MAX_WHEEL_BYTES)

    with pytest.raises(ReleaseError, match="bytes; at most 3,000,000"):
        check_wheel(large)


@pytest.mark.parametrize(
    "text",
    [
        "MIT",
        "Apache-2.0 AND MIT",
        "BSD License; MIT License",
        "Mozilla Public License 2.0 (MPL 2.0)",
        "(Apache-2.0 OR BSD-3-Clause)",
    ],
)
def test_known_licences_pass(text: str) -> None:
    assert list_licence_problems([{"Name": "one", "License": text}]) == []


@pytest.mark.parametrize("text", ["UNKNOWN", "GPL-3.0-only", "MIT AND Proprietary", ""])
def test_each_other_licence_is_named(text: str) -> None:
    assert list_licence_problems([{"Name": "one", "License": text}]) == [f"one: {text}"]


def test_an_unknown_step_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert release_check.main(["publish"]) == 2
    assert "unknown step publish; known: workflows, build," in capsys.readouterr().out


def test_a_step_without_distributions_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release_check, "DIST", tmp_path)

    assert release_check.main(["components"]) == 1
    assert "run the step `build` first" in capsys.readouterr().err


def test_a_command_that_fails_stops_the_check() -> None:
    with pytest.raises(ReleaseError, match="ended with status 1"):
        release_check.run("false")
    with pytest.raises(ReleaseError, match="ended with status 1"):
        release_check.capture("false")

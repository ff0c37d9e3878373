"""What people install: the wheel holds the data it needs and nothing it should not."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import demur

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [path] = folder.glob("*.whl")
    return path


def test_the_wheel_holds_the_registry_and_the_marker_for_type_checkers(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    assert {
        "demur/codes/reason_codes.v1.json",
        "demur/codes/xref.json",
        "demur/py.typed",
    } <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"demur"}


def test_the_version_stands_in_one_place(wheel: Path) -> None:
    assert wheel.name.startswith(f"demur-{demur.__version__}-")


def test_the_wheel_alone_reads_and_writes_refusals(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        "from demur import format_refusal, parse_refusal;"
        "print(parse_refusal(format_refusal('RCE_RISK', 'x')));"
        "print(parse_refusal('too many requests').code)"
    )
    # -S leaves site-packages out: the vocabulary needs the standard library alone.
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )

    assert ran.stdout.startswith("ParsedRefusal(code=<ReasonCode.RCE_RISK: 'RCE_RISK'>")
    assert ran.stdout.endswith("RATE_LIMIT\n")

"""The table of adapters: nothing is left out of it without saying so."""

import sys
from pathlib import Path

import pytest
from adapters_table import drivers, main

DRIVER = """
from demur.testing.conformance import BareDriver

class Driver(BareDriver):
    name = "{name}"

DRIVERS = (Driver(),)
"""


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def add(folder: Path, name: str, text: str) -> None:
    (folder / f"driver_{name}.py").write_text(text, encoding="utf-8")


def test_drivers_of_installed_frameworks_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(tmp_path, "one_here", DRIVER.format(name="one"))
    add(tmp_path, "other_away", "import a_framework_that_nobody_has\n")

    assert [driver.name for driver in drivers(folder=tmp_path)] == ["one"]
    assert "driver_other_away cannot run here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import demur.integrations.no_such_part\n", ModuleNotFoundError),
        ("import support.no_such_part\n", ModuleNotFoundError),
        ("name = 'a driver that is not listed'\n", AttributeError),
    ],
)
def test_a_broken_driver_is_not_left_out(tmp_path: Path, text: str, error: type[Exception]) -> None:
    name = f"broken_{abs(hash(text))}"
    add(tmp_path, name, text)

    with pytest.raises(error):
        list(drivers(folder=tmp_path))


def test_a_chosen_framework_must_be_installed(tmp_path: Path) -> None:
    add(tmp_path, "wanted", "import a_framework_that_nobody_has\n")

    with pytest.raises(ModuleNotFoundError):
        list(drivers("wanted", tmp_path))


def test_results_of_several_environments_make_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("adapters_table.SCENARIOS", ())
    monkeypatch.setattr("adapters_table.DRIVERS", tmp_path)
    add(tmp_path, "first_place", DRIVER.format(name="first"))
    files = [tmp_path / "second.json", tmp_path / "third.json"]
    for file in files:
        file.write_text(
            f'[{{"driver": "{file.stem}", "scenario": "s", "problems": ["it is not so"],'
            ' "skipped": false}]'
        )

    assert main(["--only", "nowhere", "--with", *map(str, files)]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["        1", "second  X", "third   X"]
    assert shown[-2:] == ["second, s: it is not so", "third, s: it is not so"]
    assert main(["--to", str(tmp_path / "more" / "played.json")]) == 0

import subprocess
import sys

import pytest

import demur


def test_every_public_name_loads_and_is_listed() -> None:
    homes = {name for names in demur._HOMES.values() for name in names.split()}
    assert homes == {*demur.__all__, "__version__"}
    for name in demur.__all__:
        assert getattr(demur, name) is not None
        assert name in dir(demur)


def test_an_unknown_name_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = demur.nope


def test_the_module_runs_as_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "demur", "format", "RATE_LIMIT", "x"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout == "REFUSED: RATE_LIMIT: x\n"

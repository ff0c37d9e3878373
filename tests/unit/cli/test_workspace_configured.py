from pathlib import Path

import pytest
from support.support_desk import setting

from demur.cli.workspace import configured_registries
from demur.errors import InputError


def test_registries_come_from_the_settings_of_the_folder(desk: Path) -> None:
    assert configured_registries() == ()
    setting('registries = ["acme.json"]')

    assert configured_registries() == ("acme.json",)
    (desk / "demur.toml").unlink()
    assert configured_registries() == ()


def test_settings_that_cannot_be_used_are_not_passed_over(desk: Path) -> None:
    (desk / "demur.toml").write_text("registers = []")

    with pytest.raises(InputError):
        configured_registries()

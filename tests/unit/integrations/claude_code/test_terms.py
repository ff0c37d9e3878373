import os
from pathlib import Path

import pytest

from demur.errors import InputError
from demur.integrations.claude_code.terms import HookConfig, config_files, gate_config, files_stamp
from demur.policy.loader import load_policy


def test_without_settings_everything_is_allowed_that_no_guard_objects_to(tmp_path: Path) -> None:
    config = gate_config(HookConfig(tmp_path))

    assert load_policy(config.policy).policy_id == "claude-code"
    assert config.store == str(tmp_path / "demur.db")


def test_named_settings_are_gone_by(tmp_path: Path) -> None:
    path = tmp_path / "demur.toml"
    path.write_text('policy = "mine.yaml"\n')

    assert gate_config(HookConfig(tmp_path, path)).policy == str(tmp_path / "mine.yaml")


def test_settings_that_are_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        gate_config(HookConfig(tmp_path, tmp_path / "none.toml"))


def test_all_files_are_known_that_the_settings_name(tmp_path: Path) -> None:
    config = tmp_path / "demur.toml"
    config.write_text('policy = "mine.yaml"\nstore = "sqlite:///own.db"\nspool = "spool"\n')
    names = [path.name for path in config_files(HookConfig(tmp_path, config, ("/pins.md",)))]

    assert names == ["demur.toml", "mine.yaml", "pins.md", "own.db", "spool"]
    config.write_text('store = ":memory:"\n')
    assert "memory" not in str(list(config_files(HookConfig(tmp_path, config))))


@pytest.mark.parametrize("name", ["demur.toml", "policy.yaml", "own.json", "pins.md", "more.json"])
def test_the_stamp_changes_with_every_file_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("DEMUR_REGISTRY", f"{tmp_path / 'more.json'}{os.pathsep}")
    config = tmp_path / "demur.toml"
    config.write_text('registries = ["own.json"]\n')
    terms = HookConfig(tmp_path, config, (str(tmp_path / "pins.md"),))
    before = files_stamp(terms)
    with (tmp_path / name).open("a") as file:
        file.write("\n")

    assert files_stamp(terms) != before

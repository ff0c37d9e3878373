import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demur.gate.config import Config
from demur.observe.health import (
    HealthState,
    check_clock,
    check_disk,
    check_extras,
    check_settings,
)


@pytest.mark.parametrize(
    ("year", "state"),
    [(1970, HealthState.PROBLEM), (2026, HealthState.OK), (2100, HealthState.PROBLEM)],
)
def test_a_clock_that_cannot_be_right_is_a_problem(year: int, state: HealthState) -> None:
    [check] = check_clock(datetime(year, 1, 1, tzinfo=UTC))

    assert check.state is state


@pytest.mark.parametrize(
    ("free", "state"),
    [(2**25, HealthState.PROBLEM), (2**29, HealthState.WARNING), (2**35, HealthState.OK)],
)
def test_a_nearly_full_disk_is_reported(
    free: int, state: HealthState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(free, 0, free))
    [check] = check_disk(Config(store=":memory:"))

    assert check.state is state


def test_a_disk_is_not_looked_for_where_there_is_no_folder() -> None:
    assert list(check_disk(Config(store="gone/demur.db"))) == []


def test_a_missing_extra_names_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demur.observe.health.find_spec", lambda _: None)
    checks = list(check_extras())

    assert {check.state for check in checks} == {HealthState.OK}
    assert "pip install 'demur[ed25519]'" in checks[0].what


def test_without_the_registry_the_policy_is_not_checked() -> None:
    config = Config(registries=("gone.json",))
    names = [check.name for check in check_settings(Path("demur.toml"), config)]

    assert names == ["settings", "registry", "redaction", "keys"]

"""The working folder of a command: its settings, and the gate or the store they describe."""

import sys
from argparse import Namespace
from functools import cache
from pathlib import Path

from demur.cli.main import Arguments
from demur.errors import InputError, one_line
from demur.gate.config import (
    CONFIG_NAME,
    STORE_NAME,
    Config,
    database_path,
    find_config,
    find_settings,
    load_config,
    open_configured_store,
    open_gate,
)
from demur.gate.gate import Gate
from demur.policy.loader import AGENT_POLICY
from demur.store.store import Store

INIT_COMMAND = "demur init --agent"


def add_config_option(add: Arguments) -> None:
    """Add `--config FILE`, which `load_settings` reads."""
    add(
        "--config FILE",
        f"the settings file; default: `DEMUR_CONFIG`, or the nearest {CONFIG_NAME}, "
        "in this folder or above",
        type=Path,
    )


def add_tenant_option(add: Arguments, help_text: str = "only this tenant's") -> None:
    """Add `--tenant TENANT`."""
    add("--tenant TENANT", help_text)


def load_settings(args: Namespace) -> Config:
    """Return the settings of a command.

    Raises:
        InputError: There are no settings, or they are invalid.
    """
    return load_config(config_path(args))


def config_path(args: Namespace) -> Path:
    """Return the path of the settings file, or of the store in a folder without one.

    Raises:
        InputError: No file is named, and this folder has neither.
    """
    path: Path | None = args.config or find_settings()
    if path is None:
        raise InputError(
            f"there is no {CONFIG_NAME} and no {STORE_NAME} in this folder or above",
            help=f"`{INIT_COMMAND}` makes them, or name yours with --config or DEMUR_CONFIG",
        )
    if args.config is None and path.parent in Path.cwd().parents:
        _note_settings(path)
    return path


@cache
def _note_settings(path: Path) -> None:
    """Say on stderr, once, that the settings come from a folder above."""
    print(f"note: settings of {one_line(str(path))}", file=sys.stderr)


def note_default_policy(config: Config) -> None:
    """Say on stderr that no settings file chose the policy, before a command decides by it."""
    if config.policy == str(AGENT_POLICY):
        note = f"the policy for agents applies; `{INIT_COMMAND}` writes it to policy.yaml"
        print(f"note: no {CONFIG_NAME}: {note}", file=sys.stderr)


def open_existing_gate(config: Config) -> tuple[Gate, Store]:
    """Return the gate, to be closed, and its existing store.

    Raises:
        InputError: There is no store.
    """
    _require_store(config)
    gate = open_gate(config)
    assert gate.store is not None
    return gate, gate.store


def open_existing_store(config: Config) -> Store:
    """Return the existing store, to be closed.

    Raises:
        InputError: There is no store.
    """
    _require_store(config)
    store = open_configured_store(config)
    assert store is not None
    return store


def _require_store(config: Config) -> None:
    if not config.store:
        raise InputError(
            "the settings name no store, so there are no records",
            help=f'set `store = "demur.db"` in {CONFIG_NAME}',
        )
    path = database_path(config)
    if path is not None and not path.exists():
        problem = "there is no store yet"
        raise InputError(problem, where=str(path), help="the first `demur decide` creates it")


def configured_registries() -> tuple[str, ...]:
    """Return the registries that the settings of this folder name, or none without settings.

    Raises:
        InputError: The settings are invalid.
    """
    path = find_config()
    return () if path is None else load_config(path).registries

"""The working folder of a command: its settings, and the gate or the store they describe."""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from msgspec.structs import replace

from demur.cli.options import add_argument
from demur.errors import InputError
from demur.gate.config import (
    CONFIG_NAME,
    Config,
    find_config,
    load_config,
    open_configured_store,
    open_gate,
)
from demur.gate.gate import Gate
from demur.memory.recall import MemorySettings
from demur.model.record import DecisionRecord
from demur.source.item import did_you_mean
from demur.store.rows import Snapshot
from demur.store.sqlite_connections import MEMORY
from demur.store.store import Store, StoredRecord

_OWNER_ONLY = 0o600
_UNKNOWN_FIELD = re.compile(r"unknown field `(\w+)`")


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add `--config FILE`, which `load_settings` reads."""
    add_argument(
        parser,
        "--config FILE",
        f"the settings file; default: `DEMUR_CONFIG`, or {CONFIG_NAME} in this folder",
        type=Path,
    )


def add_tenant_option(
    parser: argparse.ArgumentParser, help_text: str = "only this tenant's"
) -> None:
    """Add `--tenant TENANT`."""
    add_argument(parser, "--tenant TENANT", help_text)


def load_settings(args: argparse.Namespace) -> Config:
    """Return the settings of a command.

    Raises:
        InputError: There are no settings, or they are invalid.
    """
    return read_settings(config_path(args))


def config_path(args: argparse.Namespace) -> Path:
    """Return the path of the settings file.

    Raises:
        InputError: No file is named, and this folder has none.
    """
    path: Path | None = args.config or find_config()
    if path is None:
        raise InputError(
            f"there is no {CONFIG_NAME} in this folder",
            help="create one with `demur init`, or name yours with --config or DEMUR_CONFIG",
        )
    return path


def read_settings(path: Path) -> Config:
    """Return the settings in a file, and suggest the right name for an unknown setting.

    Raises:
        InputError: The settings are invalid.
    """
    try:
        return load_config(path)
    except InputError as error:
        unknown = _UNKNOWN_FIELD.search(error.problem)
        if unknown is None or error.help:
            raise
        in_memory = (error.where or "").endswith(": memory")
        fields = (MemorySettings if in_memory else Config).__struct_fields__
        meant = did_you_mean(unknown[1], fields) or f"one of {', '.join(fields)}"
        problem = f"unknown setting `{unknown[1]}`"
        raise InputError(problem, where=error.where, help=meant) from error


def open_workspace_gate(config: Config) -> Gate:
    """Return the gate, to be closed; a new database is readable by its owner only."""
    create_private_store(config)
    return open_gate(config)


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


def database_path(config: Config) -> Path | None:
    """Return the file of the store, or None if the store is not a file."""
    scheme, separator, rest = config.store.partition("://")
    if separator and scheme != "sqlite":
        return None
    name = unquote(rest.removeprefix("/")) if separator else config.store
    return Path(name) if name and name != MEMORY else None


def create_private_store(config: Config) -> None:
    """Create the file of a new store, readable by its owner only."""
    path = database_path(config)
    if path is not None and path.parent.is_dir() and not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, _OWNER_ONLY))


def configured_registries() -> tuple[str, ...]:
    """Return the registries that the settings of this folder name, or none without settings.

    Raises:
        InputError: The settings are invalid.
    """
    path = find_config()
    return () if path is None else read_settings(path).registries


class _DryRunStore(Store):
    """A store that reads earlier records and discards new ones."""

    def put(self, record: DecisionRecord, snapshots: Sequence[Snapshot] = ()) -> StoredRecord:
        """Return what storing the record would have returned."""
        del snapshots
        request_id = record.request_id
        first = None if request_id is None else self.by_request(record.tenant, request_id)
        return StoredRecord(record) if first is None else StoredRecord(first, duplicate=True)

    def put_many(
        self, records: Sequence[DecisionRecord], snapshots: Sequence[Snapshot] = ()
    ) -> list[StoredRecord]:
        """Return what storing the records would have returned."""
        return [self.put(record, snapshots) for record in records]


def open_dry_run_gate(config: Config) -> Gate:
    """Return a gate that decides by the settings and memory, and neither stores nor spools."""
    path = database_path(config)
    absent = path is not None and not path.exists()
    gate = open_gate(replace(config, spool="", store="" if absent else config.store))
    if gate.store is not None:
        gate.store = _DryRunStore(gate.store.backend)
    return gate

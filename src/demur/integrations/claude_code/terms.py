"""The config of the hook command: settings file, state folder and pinned rules."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from demur.codes.default import ENVIRONMENT_VARIABLE
from demur.gate.config import Config, load_config
from demur.integrations.claude_code.answering import Manner

__all__ = ["Terms", "files_of", "settings_of", "stamp_of"]

_POLICY = Path(__file__).with_name("policy.yaml")


class Terms(NamedTuple):
    """The operator's options.

    Without `config`, guards decide by themselves, and records go to a store in the folder
    `state`, beside the histories of tool calls. `pins` are files of rules that outlive a
    compaction.
    """

    state: Path
    config: Path | None = None
    pins: tuple[str, ...] = ()
    tenant: str | None = None
    manner: Manner = Manner()


def settings_of(terms: Terms) -> Config:
    """Return the settings of the gate.

    Raises:
        InputError: The file cannot be read, or a setting is invalid.
    """
    if terms.config is not None:
        return load_config(terms.config)
    # A power cut may cost the last records; a full sync would cost every call of every tool.
    return Config(policy=str(_POLICY), store=str(terms.state / "demur.db"), durability="normal")


def stamp_of(terms: Terms) -> tuple[object, ...]:
    """Return a stamp that changes when a file of the config does.

    Raises:
        InputError: The settings cannot be used.
    """
    return tuple(_stamp(path) for path in _read(terms, settings_of(terms)))


def files_of(terms: Terms) -> Iterator[Path]:
    """Yield the files that the config names, also those that demur writes.

    Raises:
        InputError: The settings cannot be used.
    """
    config = settings_of(terms)
    yield from _read(terms, config)
    for place in (config.store, config.spool):
        path = (place or "").removeprefix("sqlite:///")
        if path and "://" not in path and path != ":memory:":
            yield Path(path)


def _read(terms: Terms, config: Config) -> Iterator[Path]:
    registries = (*config.registries, *os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep))
    files = (terms.config, config.policy, config.keys, *registries, *terms.pins)
    return (Path(path) for path in files if path)


def _stamp(path: Path) -> object:
    try:
        facts = path.stat()
    except OSError:
        return None
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino)

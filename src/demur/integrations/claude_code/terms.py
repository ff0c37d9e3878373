"""The config of the hook command: settings file, state folder and pinned rules."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from demur.codes.default import ENVIRONMENT_VARIABLE
from demur.gate.config import Config, load_config
from demur.integrations.claude_code.answering import HookStyle

__all__ = ["HookConfig", "config_files", "gate_config", "files_stamp"]

_POLICY = Path(__file__).with_name("policy.yaml")


class HookConfig(NamedTuple):
    """The operator's options.

    Without `config`, guards decide by themselves, and records go to a store in the folder
    `state`, beside the histories of tool calls. `pins` are files of rules that outlive a
    compaction.
    """

    state: Path
    config: Path | None = None
    pins: tuple[str, ...] = ()
    tenant: str | None = None
    style: HookStyle = HookStyle()


def gate_config(hook_config: HookConfig) -> Config:
    """Return the settings of the gate.

    Raises:
        InputError: The file cannot be read, or a setting is invalid.
    """
    if hook_config.config is not None:
        return load_config(hook_config.config)
    # A power cut may cost the last records; a full sync would cost every call of every tool.
    return Config(
        policy=str(_POLICY), store=str(hook_config.state / "demur.db"), durability="normal"
    )


def files_stamp(hook_config: HookConfig) -> tuple[object, ...]:
    """Return a stamp that changes when a file of the config does.

    Raises:
        InputError: The settings cannot be used.
    """
    return tuple(_file_stamp(path) for path in _files_read(hook_config, gate_config(hook_config)))


def config_files(hook_config: HookConfig) -> Iterator[Path]:
    """Yield the files that the config names, also those that demur writes.

    Raises:
        InputError: The settings cannot be used.
    """
    config = gate_config(hook_config)
    yield from _files_read(hook_config, config)
    for place in (config.store, config.spool):
        path = (place or "").removeprefix("sqlite:///")
        if path and "://" not in path and path != ":memory:":
            yield Path(path)


def _files_read(hook_config: HookConfig, config: Config) -> Iterator[Path]:
    registries = (*config.registries, *os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep))
    files = (hook_config.config, config.policy, config.keys, *registries, *hook_config.pins)
    return (Path(path) for path in files if path)


def _file_stamp(path: Path) -> object:
    try:
        facts = path.stat()
    except OSError:
        return None
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino)

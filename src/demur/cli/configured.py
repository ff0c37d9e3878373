"""Registries that the settings name, for commands that work without settings, too."""

from demur.cli.workspace import read_settings
from demur.gate.config import find_config

__all__ = ["configured_registries"]


def configured_registries() -> tuple[str, ...]:
    """Return the organisations' registries in the settings of this folder; none without any.

    Raises:
        InputError: There are settings, and they cannot be used.
    """
    path = find_config()
    return () if path is None else read_settings(path).registries

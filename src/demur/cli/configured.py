"""Registries from the settings, for commands that also work without settings."""

from demur.cli.workspace import read_settings
from demur.gate.config import find_config

__all__ = ["configured_registries"]


def configured_registries() -> tuple[str, ...]:
    """Return the registries that the settings of this folder name, or none without settings.

    Raises:
        InputError: The settings are invalid.
    """
    path = find_config()
    return () if path is None else read_settings(path).registries

"""The registry in force where none is named: core, `DEMUR_REGISTRY`, and installed packages."""

import os
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from demur.codes.document import Document, read_document
from demur.codes.registry import CORE_PATH, Registry
from demur.errors import RegistryError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["ENTRY_POINT_GROUP", "ENVIRONMENT_VARIABLE", "default_registry", "registry_or_core"]

ENVIRONMENT_VARIABLE = "DEMUR_REGISTRY"
ENTRY_POINT_GROUP = "demur.registries"


def default_registry(environment: Mapping[str, str] | None = None) -> Registry:
    """Return core plus what the environment and installed packages add.

    `DEMUR_REGISTRY` holds paths, separated as in `PATH`. An entry point in the
    group `demur.registries` names a path, or a function that returns one.

    Raises:
        RegistryError: A registry that was named cannot be read or breaks a rule.
    """
    paths = (os.environ if environment is None else environment).get(ENVIRONMENT_VARIABLE, "")
    return _load(paths)


@cache
def _load(paths: str) -> Registry:
    named = [read_document(path) for path in paths.split(os.pathsep) if path]
    return Registry(read_document(CORE_PATH), [*named, *_installed()])


def _installed() -> list[Document]:
    from importlib import metadata  # noqa: PLC0415 - slower to import than all of demur.codes

    return [_from_entry_point(point) for point in metadata.entry_points(group=ENTRY_POINT_GROUP)]


def _from_entry_point(point: "EntryPoint") -> Document:
    try:
        target = point.load()
        path = target() if callable(target) else target
        return read_document(Path(path))
    except RegistryError:
        raise
    # A package's import may raise anything; the author needs to hear which package it was.
    except Exception as error:
        raise RegistryError(
            f"the registry of an installed package cannot be loaded: {error}",
            where=f"entry point `{point.name} = {point.value}`",
            help="it must name a path to a registry file, or a function that returns one",
        ) from error


def registry_or_core() -> Registry:
    """Return the default registry, or the core with a warning if that one is broken.

    Reading a log line must not fail because a registry file elsewhere is wrong.
    """
    try:
        return default_registry()
    except RegistryError as error:
        warnings.warn(f"using the core reason codes alone: {error}", RuntimeWarning, stacklevel=3)
        return _core()


@cache
def _core() -> Registry:
    return Registry.load()

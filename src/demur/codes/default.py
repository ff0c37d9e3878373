"""The registry in force where none is named: core, `DEMUR_REGISTRY`, and installed packages."""

import os
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
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

_Found = tuple[str, str, int, int]


def default_registry(*files: Path | str, environment: Mapping[str, str] | None = None) -> Registry:
    """Return core plus what `files`, the environment and installed packages add.

    `DEMUR_REGISTRY` holds paths, separated as in `PATH`. An entry point in the
    group `demur.registries` names a path, or a function that returns one.

    Raises:
        RegistryError: A registry that was named cannot be read or breaks a rule.
    """
    named = _named(os.environ if environment is None else environment)
    return _load((*map(_as_found, files), *map(_as_found, named)))


def _named(environment: Mapping[str, str]) -> tuple[str, ...]:
    paths = environment.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep)
    return tuple(path for path in paths if path)


def _as_found(path: Path | str) -> _Found:
    """Return a path with what tells whether the file is still the same, here and now."""
    whole = os.path.abspath(path)  # noqa: PTH100 - as written, links and all, but from anywhere
    try:
        seen = os.stat(whole)  # noqa: PTH116 - it is a text by now
    except (OSError, ValueError):
        return str(path), whole, 0, 0
    return str(path), whole, seen.st_mtime_ns, seen.st_size


@lru_cache(maxsize=64)
def _load(found: tuple[_Found, ...]) -> Registry:
    named = [read_document(path) for path, *_ in found]
    return Registry(read_document(CORE_PATH), [*named, *_installed()])


def _installed() -> list[Document]:
    if not _announced():
        return []
    from importlib import metadata  # noqa: PLC0415 - slower to import than all of demur.codes

    return [_from_entry_point(point) for point in metadata.entry_points(group=ENTRY_POINT_GROUP)]


def _announced() -> bool:
    """Return whether an installed package may name a registry: a look at a few small files.

    What cannot be looked at that way (archives, finders of other kinds) may.
    """
    known = (BuiltinImporter, FrozenImporter, PathFinder)
    if any(hasattr(each, "find_distributions") for each in sys.meta_path if each not in known):
        return True
    return any(_announces(Path(folder)) for folder in dict.fromkeys(sys.path))


def _announces(folder: Path) -> bool:
    group = ENTRY_POINT_GROUP.encode()
    try:
        if not folder.is_dir():
            return folder.exists()
        for name in os.listdir(folder):  # noqa: PTH208 - a path for each name costs more than the look
            if name.endswith(".egg"):
                return True
            if name.endswith((".dist-info", ".egg-info")):
                with suppress(FileNotFoundError, NotADirectoryError):
                    if group in (folder / name / "entry_points.txt").read_bytes():
                        return True
    except OSError:
        return True
    return False


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
    """Return the default registry, or the core with one warning if that one is broken.

    Reading a log line must not fail because a registry file elsewhere is wrong.
    """
    return _load_or_core(_named(os.environ))


# Remembered in both cases: a log has many lines, and each would read the broken file again.
@cache
def _load_or_core(paths: tuple[str, ...]) -> Registry:
    try:
        return _load(tuple(map(_as_found, paths)))
    except RegistryError as error:
        # Even where warnings are errors: reading a line never fails.
        with suppress(RuntimeWarning):
            message = f"using the core reason codes alone: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=4)
        return Registry.load()

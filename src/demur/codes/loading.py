"""Load registries: the default one, and registries bundled into one text.

The default registry is the core plus the files that `DEMUR_REGISTRY` and installed packages
name. A bundle holds the core and every organisation's file in one text. A decision record
names its registry by the digest of that text, and a pack carries the text, so that a
decision can be replayed where the files are missing.
"""

import json
import os
import re
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.codes.document import SCHEMA_VERSION, RegistryDocument, read_document
from demur.codes.registry import CORE_PATH, Registry, read_organisations
from demur.errors import InputError, RegistryError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


ENVIRONMENT_VARIABLE = "DEMUR_REGISTRY"
ENTRY_POINT_GROUP = "demur.registries"

_FileFingerprint = tuple[str, str, int, int]


def default_registry(*files: Path | str, environment: Mapping[str, str] | None = None) -> Registry:
    """Return the core plus the registries in `files`, the environment and installed packages.

    `DEMUR_REGISTRY` holds paths, separated as in `PATH`. An entry point in the
    group `demur.registries` names a path, or a function that returns one.

    Raises:
        RegistryError: One of these registries is unreadable or breaks a rule.
    """
    named = _environment_paths(os.environ if environment is None else environment)
    return _load_registry((*map(_fingerprint_file, files), *map(_fingerprint_file, named)))


def _environment_paths(environment: Mapping[str, str]) -> tuple[str, ...]:
    paths = environment.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep)
    return tuple(path for path in paths if path)


def _fingerprint_file(path: Path | str) -> _FileFingerprint:
    """Return the path with its modification time and size, which key the cache."""
    whole = os.path.abspath(path)  # noqa: PTH100 - absolute, but links are not resolved
    try:
        seen = os.stat(whole)  # noqa: PTH116 - `whole` is a string
    except (OSError, ValueError):
        return str(path), whole, 0, 0
    return str(path), whole, seen.st_mtime_ns, seen.st_size


@lru_cache(maxsize=64)
def _load_registry(fingerprints: tuple[_FileFingerprint, ...]) -> Registry:
    named = read_organisations(path for path, *_ in fingerprints)
    return Registry(read_document(CORE_PATH), [*named, *_installed_documents()])


def _installed_documents() -> list[RegistryDocument]:
    if not _may_have_entry_points():
        return []
    from importlib import metadata  # noqa: PLC0415 - slower to import than all of demur.codes

    return [_read_entry_point(point) for point in metadata.entry_points(group=ENTRY_POINT_GROUP)]


def _may_have_entry_points() -> bool:
    """Return whether an installed package may declare a registry, by a few small files.

    Returns true where these files cannot be read: archives, and other kinds of finders.
    """
    known = (BuiltinImporter, FrozenImporter, PathFinder)
    if any(hasattr(each, "find_distributions") for each in sys.meta_path if each not in known):
        return True
    return any(_folder_declares_registry(Path(folder)) for folder in dict.fromkeys(sys.path))


def _folder_declares_registry(folder: Path) -> bool:
    group = ENTRY_POINT_GROUP.encode()
    try:
        if not folder.is_dir():
            return folder.exists()
        for name in os.listdir(folder):  # noqa: PTH208 - creating a Path per name is slower
            if name.endswith(".egg"):
                return True
            if name.endswith((".dist-info", ".egg-info")):
                with suppress(FileNotFoundError, NotADirectoryError):
                    if group in Path(folder, name, "entry_points.txt").read_bytes():
                        return True
    except OSError:
        return True
    return False


def _read_entry_point(point: "EntryPoint") -> RegistryDocument:
    try:
        target = point.load()
        return read_document(Path(target() if callable(target) else target))
    except RegistryError:
        raise
    # Importing a package may raise anything; the error must name the package.
    except Exception as error:
        raise RegistryError(
            f"the registry of an installed package cannot be loaded: {error}",
            where=f"entry point `{point.name} = {point.value}`",
            help="it must name a path to a registry file, or a function that returns one",
        ) from error


def registry_or_core() -> Registry:
    """Return the default registry; if it is broken, warn once and return the core.

    Reading a log line must not fail because a registry file elsewhere is wrong.
    """
    return _load_or_core(_environment_paths(os.environ))


# Cached in both cases: otherwise each line of a log would read the broken file again.
@cache
def _load_or_core(paths: tuple[str, ...]) -> Registry:
    try:
        return _load_registry(tuple(map(_fingerprint_file, paths)))
    except RegistryError as error:
        # Parsing a line must not fail, even where warnings are errors.
        with suppress(RuntimeWarning):
            message = f"using the core reason codes alone: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=4)
        return Registry.load()


_PIN_PART = re.compile(r"([^@\s]*)@((?:0|[1-9]\d{0,8})(?:\.(?:0|[1-9]\d{0,8})){0,2})")


def check_pin(registry: Registry, pin: str) -> None:
    """Check that a registry has the versions that a pin names.

    A pin is a version of the core with one to three numbers (`1`, `1.2`, `1.2.0`); the numbers
    that it leaves out do not matter. `1.2+acme.com@2` also pins the registry of an organisation.

    Raises:
        InputError: The text is not a pin, or the registry has another version.
    """
    core, *others = pin.split("+")
    parts = [_PIN_PART.fullmatch(part) for part in (f"@{core}", *others)]
    for part in parts:
        if part is None:
            help_text = "write one like `1`, `1.2` or `1.2.0`, or `1.2+acme.com@2`"
            raise InputError(f"`{pin[:60]}` is not a version of the registry", help=help_text)
        domain, wanted = part.groups()
        name = f"the registry of `{domain}`" if domain else "the core registry"
        loaded = registry.versions.get(domain)
        if loaded is None:
            help_text = "add its file to `registries`, or take it out of the pin"
            raise InputError(f"{name} is pinned but not loaded", help=help_text)
        if loaded.split(".")[: wanted.count(".") + 1] != wanted.split("."):
            help_text = "see what changed (`demur codes diff OLD NEW`), then change the pin"
            raise InputError(f"{name} has version {loaded}, not {wanted}", help=help_text)


BUNDLE_VERSION = "registry_bundle.v1"


def bundle_registry(registry: Registry) -> str:
    """Return the registry as one text; the same registry always gives the same text."""
    core, organisations = registry.documents
    content = {
        "schema_version": BUNDLE_VERSION,
        "core": _document_json(core),
        "organisations": [_document_json(document) for document in organisations],
    }
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def parse_bundle(text: str, name: str = "registry") -> Registry:
    """Return the registry in a bundle, checked like any other.

    Raises:
        RegistryError: The text is not a bundle, or its registry breaks a rule.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RegistryError("not JSON", where=name) from error
    wanted = {"schema_version", "core", "organisations"}
    if not isinstance(content, dict) or set(content) != wanted:
        raise RegistryError("a bundle holds a core and organisations", where=name)
    if content["schema_version"] != BUNDLE_VERSION:
        known = f"this is {BUNDLE_VERSION}"
        raise RegistryError("unknown schema version", where=f"{name}: schema_version", help=known)
    if not isinstance(content["organisations"], list):
        raise RegistryError("must be a list", where=f"{name}: organisations")
    core = read_document(f"{name}: core", json.dumps(content["core"]))
    organisations = [
        read_document(f"{name}: organisations[{index}]", json.dumps(document))
        for index, document in enumerate(content["organisations"])
    ]
    return Registry(core, organisations)


def _document_json(document: RegistryDocument) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "version": document.version,
        "domain": document.domain,
        "min_core": document.min_core,
        "phrases": dict(document.phrases),
        "codes": [dict(row.fields) for row in document.rows],
    }
    return {key: value for key, value in fields.items() if value is not None and value != {}}

"""What a run is: which suite was put to which target, and when. The file `run.json`."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from demur.errors import DemurError
from demur.evals.suite import EvalSuite
from demur.evals.target import EvalTarget
from demur.version import __version__

__all__ = [
    "MANIFEST_FILE",
    "RunManifest",
    "RunError",
    "SuiteRef",
    "TargetRef",
    "check_manifest",
    "make_manifest",
    "read_manifest",
    "write_manifest",
]

MANIFEST_FILE = "run.json"


class RunError(DemurError, ValueError):
    """A run that cannot be read, started or resumed."""


class SuiteRef(msgspec.Struct, frozen=True, kw_only=True):
    """The suite of a run; the digest covers all its rows."""

    name: str
    version: str
    digest: str
    rows: int


class TargetRef(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a run and its settings, without secrets."""

    name: str
    settings: dict[str, Any]


class RunManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that identifies a run; `rows` is the number of rows it asks."""

    schema_version: Literal["eval_run.v1"] = "eval_run.v1"
    suite: SuiteRef
    target: TargetRef
    rows: int
    seed: int | None = None
    limit: int | None = None
    versions: dict[str, str]
    started_at: str
    finished_at: str | None = None


def make_manifest(
    suite: EvalSuite,
    target: EvalTarget,
    *,
    rows: int,
    seed: int | None,
    limit: int | None,
    now: str,
) -> RunManifest:
    """Return the manifest of a run that starts now."""
    return RunManifest(
        suite=SuiteRef(
            name=suite.name, version=suite.version, digest=suite.digest, rows=len(suite.rows)
        ),
        # Round-trip through JSON, so that it equals the manifest that is read later.
        target=msgspec.json.decode(
            msgspec.json.encode({"name": target.name, "settings": dict(target.settings)}),
            type=TargetRef,
        ),
        rows=rows,
        seed=seed,
        limit=limit,
        versions={"demur": __version__, "python": platform.python_version()},
        started_at=now,
    )


def read_manifest(folder: Path) -> RunManifest:
    """Return the manifest in a run's folder.

    Raises:
        RunError: There is none, or it cannot be read.
    """
    path = folder / MANIFEST_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunError(
            "the folder holds no run", where=str(folder), help="`demur eval run --out` makes one"
        ) from error
    except (OSError, msgspec.MsgspecError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise RunError(f"cannot read the run: {reason}", where=str(path)) from error


def write_manifest(folder: Path, manifest: RunManifest) -> None:
    """Write the manifest atomically."""
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    fresh = folder / f"{MANIFEST_FILE}.new"
    with fresh.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / MANIFEST_FILE)


def check_manifest(folder: Path, known: RunManifest, wanted: RunManifest) -> None:
    """Refuse to resume a run that was started with other settings.

    Raises:
        RunError: The suite, the target, the seed or the limit differs.
    """
    changed = list(_list_changes(known, wanted))
    if changed:
        raise RunError(
            f"the run was started with other settings: {'; '.join(changed)}",
            where=str(folder),
            help="give this run another folder with --out",
        )


def _list_changes(known: RunManifest, wanted: RunManifest) -> Iterator[str]:
    if known.suite.digest != wanted.suite.digest:
        was, now = (f"{one.name} {one.version}" for one in (known.suite, wanted.suite))
        yield f"suite `{was}`" + (", whose rows have changed" if was == now else f", now `{now}`")
    if known.target != wanted.target:
        settings = (known.target.settings, wanted.target.settings)
        names = [
            name
            for name in sorted({*settings[0], *settings[1]})
            if settings[0].get(name) != settings[1].get(name)
        ]
        which = f" in {', '.join(names)}" if names else ""
        yield f"target `{known.target.name}`, now `{wanted.target.name}`{which}"
    for name in ("seed", "limit"):
        was, now = getattr(known, name), getattr(wanted, name)
        if was != now:
            yield f"{name} `{was}`, now `{now}`"

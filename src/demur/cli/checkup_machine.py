"""Check the machine: file permissions, clock, disk space, extras."""

import shutil
import stat
from collections.abc import Callable, Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from demur.cli.checkup import HealthCheck, report_ok, report_problem, report_warning
from demur.cli.workspace import database_path
from demur.gate.config import Config, open_configured_spool

__all__ = ["check_clock", "check_disk", "check_extras", "check_permissions"]

_OTHERS_ANY = stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWOTH
_MIN_YEAR, _MAX_YEAR = 2025, 2100
_MIB = 1024 * 1024
_MIN_FREE_BYTES, _LOW_FREE_BYTES = 64 * _MIB, 1024 * _MIB
_EXTRAS = {
    "ed25519": ("cryptography", "grants that gates can verify but not sign"),
    "memory": ("usearch", "fast search among very many experiences"),
    "postgres": ("psycopg", "a store in PostgreSQL"),
}


def check_permissions(path: Path, config: Config) -> Iterator[HealthCheck]:
    """Yield the files that other users of this machine can read or change and should not."""
    found = [
        *_find_exposed(
            _list_secrets(path, config), _OTHERS_ANY, "can be read by every user of this machine"
        ),
        *_find_exposed(_list_trusted(path, config), _OTHERS_WRITE, "can be changed by every user"),
    ]
    yield from found
    if not found:
        yield report_ok("rights", "the store and the keys are closed to other users")


def _find_exposed(files: Iterator[Path], bits: int, what: str) -> Iterator[HealthCheck]:
    for file in files:
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & bits:
            right = "o-rwx" if bits == _OTHERS_ANY else "o-w"
            help_text = f"`demur doctor --fix`, or chmod {right} {file}"
            yield report_problem(
                "rights", f"{file} {what}", help_text, _make_chmod_fix(file, mode & ~bits)
            )


def _make_chmod_fix(file: Path, mode: int) -> Callable[[], None]:
    return lambda: file.chmod(mode)


def _list_secrets(path: Path, config: Config) -> Iterator[Path]:
    """Yield the files that hold personal data or signing keys."""
    database, spool = database_path(config), open_configured_spool(config)
    candidates = (
        [] if database is None else [Path(f"{database}{end}") for end in _DATABASE_SUFFIXES]
    )
    if spool is not None:
        candidates.append(spool.path)
    candidates += sorted(path.parent.glob("*.key.json"))
    if config.keys is not None and "hmac" in _read_text(Path(config.keys)):
        # A trusted HMAC key is the secret itself.
        candidates.append(Path(config.keys))
    return (file for file in candidates if file.is_file())


_DATABASE_SUFFIXES = ("", "-wal", "-shm")


def _list_trusted(path: Path, config: Config) -> Iterator[Path]:
    """Yield the files that control decisions."""
    named = (path, config.policy, *config.registries, config.keys)
    return (Path(file) for file in named if file is not None and Path(file).is_file())


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def check_clock(now: datetime) -> Iterator[HealthCheck]:
    """Yield whether the clock is plausible."""
    if _MIN_YEAR <= now.year < _MAX_YEAR:
        yield report_ok("clock", f"{now:%Y-%m-%d %H:%M} UTC")
    else:
        what = f"the clock says {now:%Y-%m-%d}, which is not plausible"
        yield report_problem("clock", what, "set the clock; records and grants depend on it")


def check_disk(config: Config) -> Iterator[HealthCheck]:
    """Yield whether the disk has space for more decisions."""
    database = database_path(config)
    folder = Path() if database is None else database.parent
    if not folder.is_dir():
        return
    free = shutil.disk_usage(folder).free
    said = f"{free / _MIB:,.0f} MiB free"
    if free < _MIN_FREE_BYTES:
        yield report_problem(
            "disk", said, "free some space: demur refuses requests that it cannot store"
        )
    elif free < _LOW_FREE_BYTES:
        yield report_warning(
            "disk", said, "free some space soon: demur refuses requests that it cannot store"
        )
    else:
        yield report_ok("disk", said)


def check_extras() -> Iterator[HealthCheck]:
    """Yield which extras are installed; none is needed unless a setting requires it."""
    for extra, (package, use) in _EXTRAS.items():
        if find_spec(package) is not None:
            yield report_ok("extras", f"{extra}: installed")
        else:
            yield report_ok(
                "extras", f"{extra}: not installed; for {use}: pip install 'demur[{extra}]'"
            )

"""Keep compiled databases between runs, where nobody else can write.

A serialised database is trusted like code. So it is read only from a file and folders that
belong to the user (or root) alone, and only if its digest is right. Anything amiss means:
nothing is kept. Then compiling costs its second or two, and no more is lost.
"""

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["CACHE_VARIABLE", "cache_folder", "load_cached", "save_cached"]

CACHE_VARIABLE = "DEMUR_CACHE"
_OFF = "off"
_SUFFIX = ".database"
_DIGEST_SIZE = hashlib.sha256().digest_size
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MAX_FILES = 64


def cache_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder of cached databases; None if the cache is off.

    `DEMUR_CACHE` names the folder, or is `off`.
    """
    known = os.environ if environment is None else environment
    named = known.get(CACHE_VARIABLE, "")
    if named == _OFF or os.name != "posix":
        return None
    if named:
        return Path(named).absolute()
    try:
        home = Path.home()
    except RuntimeError:
        return None
    usual = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    given = Path(known.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else usual) / "demur"


def load_cached(folder: Path, key: str) -> bytes | None:
    """Return the payload cached under the key; None if there is none that can be trusted."""
    try:
        if not _is_private_folder(folder):
            return None
        handle = os.open(folder / f"{key}{_SUFFIX}", os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(handle, "rb") as file:
            if not _is_own_file(os.fstat(handle)):
                return None
            digest, payload = file.read(_DIGEST_SIZE), file.read()
    except OSError:
        return None
    return payload if hashlib.sha256(payload).digest() == digest else None


def save_cached(folder: Path, key: str, payload: bytes) -> None:
    """Cache the payload under the key, if the folder is the user's own."""
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private_folder(folder):
            return
        # Written to a private file and renamed, so that no reader sees half of it.
        handle, name = tempfile.mkstemp(dir=folder, prefix=f"{key}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(payload).digest() + payload)
            Path(name).replace(folder / f"{key}{_SUFFIX}")
        except OSError:
            Path(name).unlink(missing_ok=True)
            return
        _discard_oldest(folder)


def _is_own_file(status: os.stat_result) -> bool:
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & _WRITABLE_BY_OTHERS
    )


def _is_private_folder(folder: Path) -> bool:
    """Return whether only the user and root can add, replace or move files in the folder."""
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & _WRITABLE_BY_OTHERS:
        return False
    for above in folder.resolve().parents:
        status = above.stat()
        if status.st_uid not in {0, os.geteuid()}:
            return False
        if status.st_mode & _WRITABLE_BY_OTHERS and not status.st_mode & stat.S_ISVTX:
            return False
    return True


def _discard_oldest(folder: Path) -> None:
    kept = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-_MAX_FILES]:
        path.unlink(missing_ok=True)

"""The user's cache of compiled rules, and the rule that an event loop never compiles any.

A cached file is trusted like code. So it is read only from a file and folders that nobody but the
user and root can write, and only if its digest is right. Otherwise the cache is not used, which
costs time and nothing else.
"""

import hashlib
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

CACHE_VARIABLE = "DEMUR_CACHE"
_OFF = "off"
_SUFFIX = ".database"
_DIGEST_SIZE = hashlib.sha256().digest_size
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MAX_FILES = 128


def cache_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder of compiled rules; None if the cache is off.

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
    default = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    xdg = Path(known.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else default) / "demur"


def load_cached(folder: Path, key: str, expected: bytes | None = None) -> bytes | None:
    """Return the payload cached under the key; None if there is none that can be trusted.

    `expected` is the SHA-256 digest that it must have; by default the one that was stored with it.
    """
    try:
        if not _is_private_folder(folder):
            return None
        # Opening a pipe must not wait for somebody who writes to it.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(folder / f"{key}{_SUFFIX}", flags)
        with os.fdopen(handle, "rb") as file:
            if not _is_own_file(os.fstat(handle)):
                return None
            digest, payload = file.read(_DIGEST_SIZE), file.read()
    except OSError:
        return None
    wanted = digest if expected is None else expected
    return payload if hashlib.sha256(payload).digest() == wanted else None


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
        kept = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-_MAX_FILES]:
            path.unlink(missing_ok=True)


def _is_own_file(status: os.stat_result) -> bool:
    own = status.st_uid == os.geteuid() and not status.st_mode & _WRITABLE_BY_OTHERS
    return own and stat.S_ISREG(status.st_mode)


def _is_private_folder(folder: Path) -> bool:
    """Return whether only the user and root can add, replace or move files in the folder."""
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & _WRITABLE_BY_OTHERS:
        return False
    for above in folder.resolve().parents:
        status = above.stat()
        open_folder = status.st_mode & _WRITABLE_BY_OTHERS and not status.st_mode & stat.S_ISVTX
        if open_folder or status.st_uid not in {0, os.geteuid()}:
            return False
    return True


class LoadingDeferredError(Exception):
    """Something must be compiled first, which may take long, and this thread must not wait."""


class _ThreadState(threading.local):
    defers = False


_state = _ThreadState()


@contextmanager
def defer_loading() -> Iterator[None]:
    """Raise `LoadingDeferredError` in this thread instead of compiling rules."""
    before, _state.defers = _state.defers, True
    try:
        yield
    finally:
        _state.defers = before


def require_loading() -> None:
    """Check that this thread may compile rules now.

    Raises:
        LoadingDeferredError: It must not wait for that.
    """
    if _state.defers:
        raise LoadingDeferredError

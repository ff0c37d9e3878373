"""Find matching patterns with hyperscan, which is fast on text it has never seen.

Compiling some hundred patterns takes a second or two, so the compiled database is cached
between runs. Patterns that hyperscan cannot compile exactly are searched approximately, and the
rest is left to re2: the caller confirms each match anyway.

A cached database is trusted like code. So it is read only from a file and folders that nobody
but the user and root can write, and only if its digest is right. Otherwise the cache is not
used.
"""

import hashlib
import os
import platform
import stat
import sys
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hyperscan

from demur.scan.database import Re2Engine

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
    default = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    xdg = Path(known.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else default) / "demur"


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


_EXACT = hyperscan.HS_FLAG_DOTALL
# Frequent expressions are reported once.
_ONCE = _EXACT | hyperscan.HS_FLAG_SINGLEMATCH
_ROUGH = _ONCE | hyperscan.HS_FLAG_PREFILTER
_MODE = hyperscan.HS_MODE_BLOCK


class HyperscanEngine:
    """Finds which expressions may match in a text. Safe to share between threads."""

    name = "hyperscan"
    # Larger patterns take too long to compile.
    max_pattern_size = 1_000

    def __init__(
        self, expressions: Sequence[bytes], *, presence_only: Collection[int] = ()
    ) -> None:
        self._threads = threading.local()
        self._uncompiled: list[int] = []
        self._presence_only = set(presence_only)
        self._database = self._load_database(list(expressions))
        self._fallback = Re2Engine([expressions[index] for index in self._uncompiled])

    def find_matching(self, data: bytes) -> dict[int, list[int]]:
        """Return the indices of expressions that may match, with the ends of their matches.

        No expression that matches is left out. The ends are unordered, or empty if unknown.
        """
        found: dict[int, list[int]] = {}
        if self._database is not None:
            scratch = getattr(self._threads, "scratch", None)
            if scratch is None:
                scratch = self._threads.scratch = hyperscan.Scratch(self._database)
            self._database.scan(data, _record_match, context=found, scratch=scratch)
        if self._uncompiled:
            found |= {self._uncompiled[index]: [] for index in self._fallback.find_matching(data)}
        for index in self._presence_only.intersection(found) if found else ():
            found[index] = []
        return found

    def _load_database(self, expressions: list[bytes]) -> "hyperscan.Database | None":
        """Return the database for the expressions, from the cache or compiled."""
        folder = cache_folder()
        flags = [_ONCE if i in self._presence_only else _EXACT for i in range(len(expressions))]
        probe = hyperscan.Database(mode=_MODE)
        probe.compile(expressions=[b"probe"], ids=[0], elements=1, flags=_EXACT)
        about = f"{version('hyperscan')} {probe.info()!r} {platform.machine()} {flags}"
        parts = hashlib.sha256()
        for part in (about.encode(), *expressions):
            parts.update(b"%d:" % len(part) + part)
        key = parts.hexdigest()
        kept = load_cached(folder, key) if folder else None
        if kept is not None:
            try:
                return hyperscan.loadb(kept, _MODE)
            except hyperscan.error:
                pass
        database = _compile(expressions, flags)
        if database is None:
            return self._compile_rest(expressions)
        if folder:
            save_cached(folder, key, hyperscan.dumpb(database))
        return database

    def _compile_rest(self, expressions: list[bytes]) -> "hyperscan.Database | None":
        """Return a database of the expressions that compile, and record the others."""
        flags = []
        for index, expression in enumerate(expressions):
            usable = [flag for flag in (_ONCE, _ROUGH) if _compile([expression], [flag])]
            flags.append(usable[0] if usable else 0)
            if not usable:
                self._uncompiled.append(index)
        # Approximate matches do not end where exact ones do.
        self._presence_only = set(range(len(expressions)))
        database = _compile(expressions, flags)
        if database is None:
            self._uncompiled = list(range(len(expressions)))
        return database


def _record_match(index: int, _start: int, end: int, _flags: int, found: Any) -> None:
    if index in found:
        found[index].append(end)
    else:
        found[index] = [end]


def _compile(expressions: list[bytes], flags: list[int]) -> "hyperscan.Database | None":
    """Return a database of the expressions with a flag; None if hyperscan refuses."""
    used = [index for index, flag in enumerate(flags) if flag]
    chosen, marks = [expressions[index] for index in used], [flags[index] for index in used]
    database = hyperscan.Database(mode=_MODE)
    try:
        database.compile(expressions=chosen, ids=used, elements=len(used), flags=marks)
    except hyperscan.error:
        return None
    return database

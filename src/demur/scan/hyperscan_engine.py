"""Find matching patterns with hyperscan, which is fast on text it has never seen.

Compiling some hundred patterns takes a second or two, so the compiled database is cached
between runs. Patterns that hyperscan cannot compile exactly are searched approximately, and the
rest is left to re2: the caller confirms each match anyway.
"""

import hashlib
import platform
import threading
from collections.abc import Collection, Sequence
from importlib.metadata import version
from typing import Any

import hyperscan

from demur.scan.cache import cache_folder, load_cached, save_cached
from demur.scan.database import Re2Engine

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

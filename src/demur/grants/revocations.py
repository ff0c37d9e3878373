"""The revocation file: ids of grants that no longer count, for gates with and without a store.

It is a JSON list of grant ids. A gate reads it whenever a grant is presented, so a revocation
counts from the next decision on.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from demur.errors import GrantError, error_reason
from demur.grants.keys import read_grant_file

if sys.platform != "win32":
    import fcntl


class RevocationFile:
    """The revocation file at `path`. Safe to share between threads."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._known: tuple[bytes, frozenset[str]] = (b"[]", frozenset())

    def read(self) -> frozenset[str]:
        """Return the revoked ids as they are in the file now; only a changed file is parsed.

        Raises:
            GrantError: It cannot be read, or is no JSON list of ids. A missing file is an error
                too: nobody knows what was revoked.
        """
        raw = read_grant_file(self.path)
        # Compare the content: a time stamp can stay the same when a file changes.
        known = self._known
        if raw != known[0]:
            known = self._known = (raw, self._parse(raw))
        return known[1]

    def add(self, grant_ids: Iterable[str]) -> frozenset[str]:
        """Add ids durably, and return all; readers see the old list or the new one.

        Raises:
            GrantError: The file cannot be read or written.
        """
        draft = self.path.with_name(f"{self.path.name}.new")
        try:
            with _lock_folder(self.path.parent) as folder:
                before = self.read() if self.path.exists() else frozenset[str]()
                ids = before.union(grant_ids)
                with draft.open("w", encoding="utf-8") as stream:
                    stream.write(json.dumps(sorted(ids), indent=2) + "\n")
                    stream.flush()
                    os.fsync(stream.fileno())
                draft.replace(self.path)
                if folder is not None:
                    os.fsync(folder)
        except OSError as error:
            problem = f"cannot write: {error_reason(error)}"
            raise GrantError(problem, where=str(self.path)) from error
        return ids

    def _parse(self, raw: bytes) -> frozenset[str]:
        try:
            return frozenset(msgspec.json.decode(raw, type=list[str]))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise GrantError("not a JSON list of grant ids", where=str(self.path)) from error


@contextmanager
def _lock_folder(folder: Path) -> Iterator[int | None]:
    """Lock a folder, so that of two who revoke at once neither loses an id; yield its handle."""
    if sys.platform == "win32":
        yield None
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)

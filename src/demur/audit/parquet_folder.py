"""A folder of Parquet files that follows a store: `day=YYYY-MM-DD/tenant=NAME/FIRST-LAST.parquet`.

A manifest per tenant in `_demur/` names each file with its places in the chain, its rows and its
digest. It is replaced before files are moved to their places, and says what a run that was
interrupted still has to do. So readers see each file whole, and each record at most once.
"""

import os
import re
import shutil
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from demur.audit.parquet_rows import build_batch, encode_parquet, parquet_schema
from demur.canonical import digest_of_bytes
from demur.errors import DemurError, InputError, Problem, error_reason
from demur.store.backend import StorageError
from demur.store.events import ChainEvent, EventRow, erased_decisions, read_event
from demur.store.rows import ChainHead, LinkedRow
from demur.store.sql import Backend
from demur.store.store import Store

if sys.platform != "win32":
    import fcntl

_OWN_FOLDER = "_demur"
_STAGING = "staging"
_OWNER_FOLDER, _OWNER_FILE = 0o700, 0o600
# What one file holds at most, and so about what is in memory.
_MAX_ROWS = 100_000
_MAX_BYTES = 64 * 1024 * 1024
_ROWS_AT_ONCE = 2_000
_MAX_NAME_BYTES = 200
_FILE_PATH = re.compile(r"day=[\d-]+/tenant=[^/\\]+/\d+-\d+\.parquet")


class ParquetError(DemurError):
    """A folder of Parquet files that cannot be continued."""


class ParquetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file, with the places of its first and last record in the chain of its tenant.

    `stale` says that the store let go of something in it, and that it is still to be rewritten.
    """

    path: str
    day: str
    first: int
    last: int
    rows: int
    size: int
    digest: str
    stale: bool = False


class TenantManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files of a tenant, and up to which places of its chain they follow the store.

    `seq` and `hash` are those of the last record that was exported. Events up to `event_seq` were
    applied. `removed` are files that are still to be deleted.
    """

    tenant: str
    seq: int = 0
    hash: str = ""
    event_seq: int = 0
    files: tuple[ParquetFile, ...] = ()
    removed: tuple[ParquetFile, ...] = ()
    schema_version: Literal["decision_parquet.v1"] = "decision_parquet.v1"


class ParquetExport(NamedTuple):
    """What a run did: the rows and files it added, and the files it rewrote and removed.

    `unreachable` are files that hold what the store let go of, and that are not where they were
    written or not as they were written.
    """

    rows: int = 0
    added: int = 0
    rewritten: int = 0
    removed: int = 0
    unreachable: tuple[Problem, ...] = ()


_decode_manifest = msgspec.json.Decoder(TenantManifest).decode
_replace = msgspec.structs.replace


def export_parquet(
    store: Store, folder: Path, *, tenant: str | None = None, forget_unreachable: bool = False
) -> ParquetExport:
    """Bring a folder of Parquet files up to date with the store, in bounded memory.

    Records that are new are appended. Files with records that were erased or retired since are
    rewritten or removed. A later run reports unreachable files again, unless they are forgotten.

    Raises:
        MissingExtraError: Arrow is not installed.
        ParquetError: The folder cannot be written, is in use, or belongs to another store.
    """
    schema = parquet_schema()
    try:
        with _open_folder(folder):
            heads = store.list_heads()
            _check_tenants(folder, heads, tenant)
            exports = [
                _TenantExport(store.backend, folder, head, schema).run(
                    forget_unreachable=forget_unreachable
                )
                for head in heads
                if tenant in {None, head.tenant}
            ]
    except OSError as error:
        place = str(error.filename or folder)
        raise ParquetError(f"cannot write: {error_reason(error)}", where=place) from error
    return ParquetExport(
        rows=sum(one.rows for one in exports),
        added=sum(one.added for one in exports),
        rewritten=sum(one.rewritten for one in exports),
        removed=sum(one.removed for one in exports),
        unreachable=tuple(problem for one in exports for problem in one.unreachable),
    )


def read_manifests(folder: Path) -> list[TenantManifest]:
    """Return the manifest of each tenant in a folder, by name.

    Raises:
        ParquetError: One of them cannot be read.
    """
    paths = sorted((folder / _OWN_FOLDER).glob("*.json"))
    return sorted(map(_read_manifest, paths), key=lambda one: one.tenant)


def encode_name(name: str) -> str:
    """Return a tenant as the name of a folder, as Hive, Spark and DuckDB decode it.

    Upper case is encoded as well: some file systems do not tell it from lower case. A name too long
    for a folder becomes a digest, which decodes to no tenant.
    """
    encoded = "".join(
        letter
        if (letter.isalnum() and letter == letter.lower()) or (letter in "_-." and place > 0)
        else "".join(f"%{byte:02X}" for byte in letter.encode())
        for place, letter in enumerate(name)
    )
    if len(encoded.encode()) <= _MAX_NAME_BYTES:
        return encoded
    return f"~{sha256(name.encode()).hexdigest()}"


@contextmanager
def _open_folder(folder: Path) -> Iterator[None]:
    """Create a folder unless it exists, and lock it against other processes."""
    own = folder / _OWN_FOLDER
    if not own.is_dir() and folder.is_dir() and any(folder.iterdir()):
        problem = "the folder holds other files"
        raise ParquetError(problem, where=str(folder), help="name a new folder, or an empty one")
    folder.mkdir(_OWNER_FOLDER, parents=True, exist_ok=True)
    for part in (own, own / _STAGING):
        part.mkdir(_OWNER_FOLDER, exist_ok=True)
    with os.fdopen(os.open(own / "lock", os.O_WRONLY | os.O_CREAT, _OWNER_FILE)) as file:
        if sys.platform != "win32":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                problem = "another process is writing to this folder"
                raise ParquetError(problem, where=str(folder), help="wait for it") from error
        yield


def _check_tenants(folder: Path, heads: Collection[ChainHead], tenant: str | None) -> None:
    """Refuse a tenant that is unknown, and a folder with tenants that the store does not have."""
    if tenant is not None and all(head.tenant != tenant for head in heads):
        known = ", ".join(head.tenant for head in heads) or "no records yet"
        raise ParquetError(f"there is no tenant `{tenant}`", help=f"there are {known}")
    names = {f"{encode_name(head.tenant)}.json" for head in heads}
    for path in sorted((folder / _OWN_FOLDER).glob("*.json")):
        if path.name not in names:
            raise _foreign_files(_read_manifest(path).tenant, folder)


def _foreign_files(tenant: str, folder: Path) -> ParquetError:
    problem = f"the files of tenant `{tenant}` are those of another store"
    help_text = "export to a new folder; `demur audit verify` checks this store"
    return ParquetError(problem, where=str(folder), help=help_text)


def _read_manifest(path: Path) -> TenantManifest:
    try:
        manifest = _decode_manifest(path.read_bytes())
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        problem = f"not a manifest of Parquet files: {error}"
        help_text = "export to a new folder, with the newest demur"
        raise ParquetError(problem, where=str(path), help=help_text) from error
    for file in (*manifest.files, *manifest.removed):
        # These files are replaced and deleted, so they must be those of this folder.
        if not _FILE_PATH.fullmatch(file.path):
            problem = f"a manifest does not name `{file.path}`"
            raise ParquetError(problem, where=str(path), help="export to a new folder")
    return manifest


class _Staged(NamedTuple):
    """A file in the staging folder, named by its digest."""

    path: Path
    entry: ParquetFile


class _TenantExport:
    """Brings the files of one tenant up to date with the head of its chain."""

    def __init__(self, backend: Backend, folder: Path, head: ChainHead, schema: Any) -> None:
        self._backend = backend
        self._folder = folder
        self._head = head
        self._schema = schema
        self._name = encode_name(head.tenant)
        self._manifest_path = folder / _OWN_FOLDER / f"{self._name}.json"
        self._staging = folder / _OWN_FOLDER / _STAGING / self._name
        self._manifest = TenantManifest(tenant=head.tenant)
        if self._manifest_path.exists():
            self._manifest = _read_manifest(self._manifest_path)

    def run(self, *, forget_unreachable: bool) -> ParquetExport:
        """Do everything that is to do, and return what was done."""
        self._finish_last_run()
        self._check_store()
        self._mark_stale()
        rewritten, removed, unreachable = self._treat_stale()
        if forget_unreachable and unreachable:
            self._save(files=self._other_files(unreachable))
        rows = added = 0
        for entries in self._append_records():
            added += len(entries)
            rows += sum(entry.rows for entry in entries)
        problems = tuple(
            Problem(str(self._folder / entry.path), problem)
            for entry, problem in unreachable.items()
        )
        return ParquetExport(rows, added, rewritten, removed, problems)

    # -- manifest and files ----------------------------------------------------------------

    def _save(self, **changes: Any) -> None:
        """Replace the manifest durably."""
        self._manifest = _replace(self._manifest, **changes)
        raw = msgspec.json.format(msgspec.json.encode(self._manifest), indent=1)
        part = self._manifest_path.with_suffix(".part")
        _write_durably(part, raw)
        part.replace(self._manifest_path)
        _sync_folder(part.parent)

    def _finish_last_run(self) -> None:
        """Do what the manifest says and an interrupted run did not do."""
        for entry in self._manifest.files:
            staged = self._staging / _staged_name(entry.digest)
            if staged.exists():
                self._place(_Staged(staged, entry))
        if self._manifest.removed:
            self._delete(self._manifest.removed)
            self._save(removed=())
        if self._staging.exists():
            shutil.rmtree(self._staging)

    def _stage(self, batches: Sequence[Any], day: str, rows: int, path: str | None) -> _Staged:
        """Write a file to the staging folder; without `path`, its name follows from its places."""
        buffer = encode_parquet(batches, self._schema)
        places = [batch.column("seq") for batch in batches]
        first, last = places[0][0].as_py(), places[-1][-1].as_py()
        name = f"day={day}/tenant={self._name}/{first:012}-{last:012}.parquet"
        entry = ParquetFile(
            path=name if path is None else path,
            day=day,
            first=first,
            last=last,
            rows=rows,
            size=buffer.size,
            digest=digest_of_bytes(buffer),
        )
        self._staging.mkdir(_OWNER_FOLDER, exist_ok=True)
        staged = self._staging / _staged_name(entry.digest)
        _write_durably(staged, buffer)
        return _Staged(staged, entry)

    def _place(self, staged: _Staged) -> None:
        """Move a staged file to its place, where it replaces an earlier one."""
        target = self._folder / staged.entry.path
        for parent in (target.parent.parent, target.parent):
            parent.mkdir(_OWNER_FOLDER, exist_ok=True)
        staged.path.replace(target)
        _sync_folder(target.parent)

    def _delete(self, entries: Iterable[ParquetFile]) -> None:
        for entry in entries:
            path = self._folder / entry.path
            path.unlink(missing_ok=True)
            # Other files may be left in them.
            with suppress(OSError):
                path.parent.rmdir()
                path.parent.parent.rmdir()

    # -- what the store let go of ----------------------------------------------------------

    def _check_store(self) -> None:
        """Refuse a folder that follows another store."""
        known, tenant = self._manifest, self._manifest.tenant
        if tenant == self._head.tenant and known.seq == 0:
            return
        last = next(self._backend.read_chain(tenant, known.seq, known.seq), None)
        if last is None:
            is_same = known.seq <= self._backend.get_anchor(tenant).seq
        else:
            is_same = last.hash == known.hash
        if tenant != self._head.tenant or not is_same:
            raise _foreign_files(tenant, self._folder)

    def _mark_stale(self) -> None:
        """Mark the files with records that were let go of since the last run."""
        known, anchor = self._manifest, self._backend.get_anchor(self._head.tenant).seq
        erased = sorted(self._find_erased()) if known.files else []

        def holds_erased(file: ParquetFile) -> bool:
            place = bisect_left(erased, file.first)
            return place < len(erased) and erased[place] <= file.last

        files = tuple(
            _replace(file, stale=True) if file.first <= anchor or holds_erased(file) else file
            for file in known.files
        )
        if files != known.files or known.event_seq != self._head.seq:
            self._save(files=files, event_seq=self._head.seq)

    def _find_erased(self) -> Collection[int]:
        """Return the places of records whose sealed part was erased since the last run."""
        places = set()
        for row in self._backend.read_events(self._head.tenant, self._manifest.event_seq + 1):
            if row.seq > self._head.seq:
                # The next run applies it: records of this run may be read before or after it.
                break
            for decision_id in erased_decisions(_read_event(row)):
                record = self._backend.get_record(decision_id)
                if record is not None and record.tenant == row.tenant:
                    places.add(record.seq)
        return places

    def _treat_stale(self) -> tuple[int, int, Mapping[ParquetFile, str]]:
        """Rewrite and remove stale files; return how many, and those that cannot be reached."""
        stale = [file for file in self._manifest.files if file.stale]
        problems = {file: self._find_problem(file) for file in stale}
        unreachable = {file: problem for file, problem in problems.items() if problem}
        anchor = self._backend.get_anchor(self._head.tenant).seq
        gone, rewritten = [], 0
        for file in stale:
            if file in unreachable:
                continue
            if file.last <= anchor or not self._rewrite(file):
                gone.append(file)
            else:
                rewritten += 1
        if gone:
            self._save(files=self._other_files(gone), removed=tuple(gone))
            self._delete(gone)
            self._save(removed=())
        return rewritten, len(gone), unreachable

    def _other_files(self, without: Collection[ParquetFile]) -> tuple[ParquetFile, ...]:
        return tuple(file for file in self._manifest.files if file not in without)

    def _find_problem(self, file: ParquetFile) -> str:
        """Return why a file cannot be reached; empty if it is as it was written."""
        try:
            raw = (self._folder / file.path).read_bytes()
        except FileNotFoundError:
            return "the file is missing: erase what it holds where it is now"
        if digest_of_bytes(raw) != file.digest:
            return "the file was changed since it was written: erase what it holds yourself"
        return ""

    def _rewrite(self, file: ParquetFile) -> bool:
        """Write a file anew from the store; return False if no record of it is left."""
        rows = self._backend.read_linked(self._head.tenant, file.first, file.last)
        kept = (row for row in rows if row.row.created_at[:10] == file.day)
        batches = [build_batch(part, self._schema) for part in _split(kept, _ROWS_AT_ONCE)]
        if not batches:
            return False
        staged = self._stage(batches, file.day, sum(map(len, batches)), file.path)
        files = tuple(staged.entry if one == file else one for one in self._manifest.files)
        self._save(files=files)
        self._place(staged)
        return True

    # -- new records -----------------------------------------------------------------------

    def _append_records(self) -> Iterator[list[ParquetFile]]:
        """Append the new records, and yield the files of each step."""
        rows = self._backend.read_linked(self._head.tenant, self._manifest.seq + 1, self._head.seq)
        batches: dict[str, list[Any]] = {}
        count = size = 0
        last: LinkedRow | None = None
        for part in _split(rows, _ROWS_AT_ONCE):
            last = part[-1]
            for day, of_day in _group_by_day(part).items():
                batch = build_batch(of_day, self._schema)
                batches.setdefault(day, []).append(batch)
                size += batch.nbytes
            count += len(part)
            if count >= _MAX_ROWS or size >= _MAX_BYTES:
                yield self._add_files(batches, last)
                batches, count, size = {}, 0, 0
        if last is not None and batches:
            yield self._add_files(batches, last)

    def _add_files(
        self, batches: Mapping[str, Sequence[Any]], last: LinkedRow
    ) -> list[ParquetFile]:
        staged = [
            self._stage(parts, day, sum(map(len, parts)), None)
            for day, parts in sorted(batches.items())
        ]
        entries = [one.entry for one in staged]
        # INVARIANT: the files of an export hold each record once, wherever a run was interrupted.
        self._save(files=(*self._manifest.files, *entries), seq=last.seq, hash=last.hash)
        for one in staged:
            self._place(one)
        return entries


def _read_event(row: EventRow) -> ChainEvent:
    try:
        return read_event(row)
    except InputError as error:
        help_text = "`demur audit verify` says what was changed"
        place = f"{row.tenant}, event {row.seq}"
        raise StorageError(error.problem, where=place, help=help_text) from error


def _split(rows: Iterable[LinkedRow], size: int) -> Iterator[list[LinkedRow]]:
    iterator = iter(rows)
    while part := list(islice(iterator, size)):
        yield part


def _group_by_day(rows: Iterable[LinkedRow]) -> dict[str, list[LinkedRow]]:
    groups: dict[str, list[LinkedRow]] = {}
    for row in rows:
        groups.setdefault(row.row.created_at[:10], []).append(row)
    return groups


def _staged_name(digest: str) -> str:
    return f"{digest.removeprefix('sha256:')}.parquet"


def _write_durably(path: Path, raw: Any) -> None:
    """Write a file that only its owner can read, and flush it to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the names of files in a folder durable."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

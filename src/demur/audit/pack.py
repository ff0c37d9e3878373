"""A pack: one decision with everything needed to make it again, anywhere, offline.

The manifest names the digest of every member and the signer, if there is one. The same decision
always gives the same file, and a single changed byte is detected. The zip container is written and
read here because both ends must be exact: members are stored uncompressed, in order, without times.
A record in an export is one JSON line, in which both halves keep the bytes that digests cover.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from demur.canonical import canonical_bytes, digest_of_bytes
from demur.errors import DemurError, InputError
from demur.grants.keys import KeyRing, SigningKey
from demur.model.grant import Grant
from demur.model.record import ChainLink, DecisionRecord
from demur.store.events import (
    APPROVAL_EVENTS,
    ChainEvent,
    EventRow,
    concerns_decisions,
    decode_events,
    encode_events,
    read_event,
)
from demur.store.rows import ChainHead, genesis_head, link_hash
from demur.version import ENGINE_VERSION

MAX_PACK_BYTES = 256 * 1024 * 1024
CONTAINER = "the zip container"

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_LOCAL_MARK, _CENTRAL_MARK, _END_MARK = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_VERSION = 20
_UNIX = 3 << 8
# The first date that a zip file can hold.
_DATE = (0 << 9) | (1 << 5) | 1
_READABLE = 0o100644 << 16


class PackError(DemurError, ValueError):
    """A pack that cannot be trusted; `where` is the member at fault."""


class _ZipMember(NamedTuple):
    name: str
    content: bytes
    end: int


def write_zip(members: Mapping[str, bytes]) -> bytes:
    """Return the file that holds the members; their names are ASCII.

    Raises:
        PackError: It would be too large.
    """
    if sum(map(len, members.values())) >= MAX_PACK_BYTES:
        raise PackError(f"a pack holds less than {MAX_PACK_BYTES} bytes", where=CONTAINER)
    body, index = b"", b""
    for name in sorted(members):
        content = members[name]
        size = len(content)
        facts = (0, 0, 0, _DATE, zlib.crc32(content), size, size, len(name), 0)
        at, label = len(body), name.encode("ascii")
        body += _LOCAL.pack(_LOCAL_MARK, _VERSION, *facts) + label + content
        made_by = (_CENTRAL_MARK, _UNIX | _VERSION, _VERSION)
        index += _CENTRAL.pack(*made_by, *facts, 0, 0, 0, _READABLE, at) + label
    count = len(members)
    return body + index + _END.pack(_END_MARK, 0, 0, count, count, len(index), len(body), 0)


def read_zip(raw: bytes) -> dict[str, bytes]:
    """Return the members of a file, each checked against its checksum.

    `check_container` checks the bytes around the members afterwards, so that an error names a
    changed member rather than the file.

    Raises:
        PackError: It is no pack.
    """
    if len(raw) > MAX_PACK_BYTES:
        raise PackError(f"a pack has at most {MAX_PACK_BYTES} bytes", where=CONTAINER)
    members: dict[str, bytes] = {}
    place = 0
    while raw.startswith(_LOCAL_MARK, place):
        entry = _zip_member(raw, place)
        place = entry.end
        if entry.name in members:
            raise PackError("the member appears twice", where=entry.name)
        members[entry.name] = entry.content
    if not members:
        raise PackError("not a pack: this is no zip file", where=CONTAINER)
    return members


def check_container(raw: bytes, members: Mapping[str, bytes]) -> None:
    """Check that a file is exactly what its members give.

    Raises:
        PackError: A byte around the members was changed.
    """
    if write_zip(members) != raw:
        raise PackError("somebody changed the file around its members", where=CONTAINER)


def _zip_member(raw: bytes, at: int) -> _ZipMember:
    start = at + _LOCAL.size
    if start > len(raw):
        raise PackError("the file is cut short", where=CONTAINER)
    _, _, flags, method, _, _, checksum, packed, size, label, extra = _LOCAL.unpack_from(raw, at)
    name = raw[start : start + label].decode("ascii", "backslashreplace")
    first = start + label + extra
    if flags or method or packed != size:
        raise PackError("the member is compressed, encrypted or streamed", where=name)
    if first + size > len(raw):
        raise PackError("the member is cut short", where=name)
    content = raw[first : first + size]
    if zlib.crc32(content) != checksum:
        raise PackError("the member was changed: its checksum differs", where=name)
    return _ZipMember(name, content, first + size)


_ERASED = msgspec.Raw(b"null")


class _ExportLine(msgspec.Struct, frozen=True, kw_only=True):
    record: msgspec.Raw
    sealed: msgspec.Raw = _ERASED
    chain: ChainLink | None = None


_encode = msgspec.json.Encoder(order="sorted").encode
_decode_line = msgspec.json.Decoder(_ExportLine).decode
_decode_record = msgspec.json.Decoder(DecisionRecord).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, DemurError)


def write_line(record: DecisionRecord) -> bytes:
    """Return the record as canonical JSON without a line break."""
    sealed = _ERASED if record.sealed is None else msgspec.Raw(record.sealed)
    raw = msgspec.Raw(record.open_bytes())
    return _encode(_ExportLine(record=raw, sealed=sealed, chain=record.chain))


def read_line(raw: bytes, *, exact: bool = True) -> DecisionRecord:
    """Return the record in a line, checked against its seal and its link.

    `exact` refuses fields that this engine does not write, as in `assemble_record`.

    Raises:
        InputError: It is no record, or somebody changed it; `where` is the half at fault.
    """
    try:
        line = _decode_line(raw)
    except _UNREADABLE as error:
        raise InputError(f"not a line of an export: {error}") from error
    sealed = None if line.sealed == _ERASED else bytes(line.sealed)
    return assemble_record(bytes(line.record), sealed, line.chain, exact=exact)


def read_lines(lines: Iterable[bytes]) -> Iterator[DecisionRecord | InputError]:
    """Yield the record of each line, or its error; it skips empty lines."""
    for number, raw in enumerate(lines, start=1):
        text = raw.strip()
        if not text:
            continue
        try:
            yield read_line(text, exact=False)
        except InputError as error:
            place = f"line {number}" if error.where is None else f"line {number}: {error.where}"
            yield InputError(error.problem, where=place, help=error.help)


def assemble_record(
    raw: bytes, sealed: bytes | None, chain: ChainLink | None, *, exact: bool = True
) -> DecisionRecord:
    """Return the record built from its parts, if they belong together.

    With `exact`, the open half may hold only what this engine writes: no extra field that a
    reader would believe and a replay would ignore.

    Raises:
        InputError: They do not belong together; `where` is `record`, `sealed` or `chain`.
    """
    try:
        bare = _decode_record(raw)
        as_written = not exact or bare.open_bytes() == raw
    except _UNREADABLE as error:
        raise InputError(f"not a decision record: {error}", where="record") from error
    if not as_written:
        made_by = bare.determinism.engine_version
        problem = f"not written as engine {ENGINE_VERSION} writes it (it says {made_by})"
        raise InputError(problem, where="record")
    record = msgspec.structs.replace(bare, sealed=sealed, chain=chain)
    if not record.seal_holds:
        raise InputError("not what was decided on: its digest is not the record's", where="sealed")
    _check_link(record, raw)
    return record


def _check_link(record: DecisionRecord, raw: bytes) -> None:
    link = record.chain
    if link is None:
        return
    head = ChainHead(record.tenant, link.seq - 1, link.previous)
    if link.seq < 1 or (link.seq == 1 and head != genesis_head(record.tenant)):
        raise InputError("not a valid place in a chain", where="chain")
    if link_hash(head, record.decision_id, raw) != link.hash:
        raise InputError("not the record that the chain holds at this place", where="record")


PACK_VERSION = "decision_pack.v1"

MANIFEST = "manifest.json"
RECORD = "record.json"
SEALED = "sealed.json"
POLICY = "policy.yaml"
REGISTRY = "registry.json"
MEMORY = "memory.json"
EARLIER = "earlier.json"
EVENTS = "events.json"
GRANTS = "grants.json"
_README = "README.txt"
_NEEDED = (RECORD, POLICY, REGISTRY, _README)
_OPTIONAL = (SEALED, MEMORY, EARLIER, GRANTS, EVENTS)
_MEMBER = {"record": RECORD, "sealed": SEALED, "chain": MANIFEST}
# Keys of grants sign packs too; the prefix keeps the two signatures apart.
_SIGNED = b"demur pack.v1\n"

_WORDS = b"""\
This is one decision of demur, and everything that it was made of.

  record.json    what was decided
  sealed.json    what came in (absent if it was erased); this may be personal
  policy.yaml    the policy that judged
  registry.json  the reason codes that it speaks
  memory.json    the experiences that it was compared with, if any are still remembered
  earlier.json   the decision that was resolved, if this is a resolution
  manifest.json  the digest of each of these, and the record's place in its chain

`demur replay FILE` checks all of it and makes the decision again.
"""


_EVENT_WORDS = b"""
  events.json    the events of the chain that concern the record: its erasure, who approved it
"""
_GRANT_WORDS = b"""
  grants.json    the grants as they were signed; a record holds only their digests
"""


class PackedExperience(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An experience that the request was compared with."""

    memory_id: str
    outcome: str
    severity: int
    projection: str
    vector: bytes


class PackSignature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signature of a pack, and the key that made it."""

    key_id: str
    algorithm: str
    value: str


class Pack(NamedTuple):
    """The content of a pack. `signed_by` is the holder of the trusted key, after a check.

    `grants` are those of the decision with their signatures; only a signed pack holds them.
    `events` are the links of the chain that say what was done to the record: its erasure, and the
    course of its approval.
    """

    record: DecisionRecord
    policy: str
    registry: str
    memory: tuple[PackedExperience, ...] = ()
    earlier: DecisionRecord | None = None
    signature: PackSignature | None = None
    signed_by: str | None = None
    grants: tuple[Grant, ...] = ()
    events: tuple[EventRow, ...] = ()


class _PackManifest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    schema_version: str
    decision_id: str
    engine_version: str
    members: dict[str, str]
    chain: ChainLink | None = None
    signature: PackSignature | None = None
    digest: str = ""

    def signed_bytes(self) -> bytes:
        return _SIGNED + _encode_canonical(msgspec.structs.replace(self, signature=None, digest=""))

    def with_digest(self) -> "_PackManifest":
        """Return the manifest with its own digest."""
        bare = msgspec.structs.replace(self, digest="")
        return msgspec.structs.replace(bare, digest=digest_of_bytes(_encode_canonical(bare)))


def _encode_canonical(value: Any) -> bytes:
    return canonical_bytes(msgspec.to_builtins(value))


_decode_manifest = msgspec.json.Decoder(_PackManifest).decode
_decode_grants = msgspec.json.Decoder(tuple[Grant, ...]).decode
_decode_memory = msgspec.json.Decoder(tuple[PackedExperience, ...]).decode


# -- writing -------------------------------------------------------------------------------


def write_pack(pack: Pack, key: SigningKey | None = None) -> bytes:
    """Return the bytes of the file, signed if there is a key to sign with."""
    # INVARIANT: a pack that nobody signed holds no signature of a grant.
    record, members = pack.record, _build_members(pack, with_grants=key is not None)
    manifest = _PackManifest(
        schema_version=PACK_VERSION,
        decision_id=record.decision_id,
        engine_version=record.determinism.engine_version,
        members={name: digest_of_bytes(raw) for name, raw in members.items()},
        chain=record.chain,
    )
    if key is not None:
        value = key.sign(manifest.signed_bytes())
        signature = PackSignature(key_id=key.key_id, algorithm=key.algorithm, value=value)
        manifest = msgspec.structs.replace(manifest, signature=signature)
    return write_zip({**members, MANIFEST: _encode_canonical(manifest.with_digest())})


def _build_members(pack: Pack, *, with_grants: bool) -> dict[str, bytes]:
    record = pack.record
    members = {
        _README: _WORDS,
        RECORD: record.open_bytes(),
        POLICY: pack.policy.encode(),
        REGISTRY: pack.registry.encode(),
    }
    if record.sealed is not None:
        members[SEALED] = record.sealed
    if pack.memory:
        members[MEMORY] = _encode_canonical(pack.memory)
    if pack.earlier is not None:
        members[EARLIER] = write_line(pack.earlier)
    if pack.events:
        members[_README] += _EVENT_WORDS
        members[EVENTS] = encode_events(pack.events)
    if pack.grants and with_grants:
        members[_README] += _GRANT_WORDS
        members[GRANTS] = _encode_canonical(pack.grants)
    return members


# -- reading -------------------------------------------------------------------------------


def read_pack(raw: bytes, keys: KeyRing | None = None) -> Pack:
    """Return the content of a pack after checking every digest.

    With `keys`, one of them must have signed it.

    Raises:
        PackError: Somebody changed a byte, or no trusted key signed it; `where` is the member.
    """
    # INVARIANT: a pack in which any byte was changed is refused, and the member is named.
    members = read_zip(raw)
    manifest = _read_manifest(members)
    _check_members(members, manifest)
    check_container(raw, members)
    signed_by = None if keys is None else _check_signature(manifest, keys)
    return _build_pack(members, manifest)._replace(signed_by=signed_by)


def _read_manifest(members: Mapping[str, bytes]) -> _PackManifest:
    if MANIFEST not in members:
        raise PackError("the member is missing", where=MANIFEST)
    raw = members[MANIFEST]
    try:
        manifest = _decode_manifest(raw)
        exact = _encode_canonical(manifest) == raw
    except _UNREADABLE as error:
        raise PackError(f"cannot read the manifest: {error}", where=MANIFEST) from error
    if not exact or manifest.with_digest() != manifest:
        raise PackError("the member was changed: its digest differs", where=MANIFEST)
    if manifest.schema_version != PACK_VERSION:
        raise PackError("unknown schema version", where=MANIFEST, help=f"this is {PACK_VERSION}")
    return manifest


def _check_members(members: Mapping[str, bytes], manifest: _PackManifest) -> None:
    listed = manifest.members
    for name in sorted({*listed, *members, *_NEEDED} - {MANIFEST}):
        if name not in (*_NEEDED, *_OPTIONAL) or (name in members and name not in listed):
            raise PackError("the member does not belong here", where=name)
        if name not in members:
            raise PackError("the member is missing", where=name)
        if digest_of_bytes(members[name]) != listed[name]:
            raise PackError("the member was changed: its digest differs", where=name)


def _check_signature(manifest: _PackManifest, keys: KeyRing) -> str:
    signature = manifest.signature
    if signature is None:
        raise PackError("nobody signed the pack", where=MANIFEST)
    key = keys.get(signature.key_id)
    if key is None:
        problem = f"signed with the key `{signature.key_id}`, which you do not trust"
        raise PackError(problem, where=MANIFEST)
    same = key.algorithm == signature.algorithm
    if not (same and key.verify_signature(manifest.signed_bytes(), signature.value)):
        raise PackError(f"the signature is not that of {key.holder}", where=MANIFEST)
    return key.holder


def _build_pack(members: Mapping[str, bytes], manifest: _PackManifest) -> Pack:
    try:
        record = assemble_record(members[RECORD], members.get(SEALED), manifest.chain)
    except InputError as error:
        raise PackError(error.problem, where=_MEMBER[error.where or "record"]) from error
    if record.decision_id != manifest.decision_id:
        raise PackError("the manifest is of another decision", where=MANIFEST)
    if record.determinism.engine_version != manifest.engine_version:
        raise PackError("the manifest is of another engine", where=MANIFEST)
    return Pack(
        record=record,
        policy=_read_text(members, POLICY),
        registry=_read_text(members, REGISTRY),
        memory=_read_memory(members),
        earlier=_read_earlier(members),
        signature=manifest.signature,
        grants=_read_grants(members, record),
        events=_read_events(members, record),
    )


def _read_text(members: Mapping[str, bytes], name: str) -> str:
    try:
        return members[name].decode()
    except UnicodeDecodeError as error:
        raise PackError("not UTF-8 text", where=name) from error


def _read_memory(members: Mapping[str, bytes]) -> tuple[PackedExperience, ...]:
    if MEMORY not in members:
        return ()
    try:
        memory = _decode_memory(members[MEMORY])
        exact = _encode_canonical(memory) == members[MEMORY]
    except _UNREADABLE as error:
        raise PackError(f"not a list of experiences: {error}", where=MEMORY) from error
    if not memory or not exact:
        raise PackError("not written as packs are", where=MEMORY)
    return memory


def _read_earlier(members: Mapping[str, bytes]) -> DecisionRecord | None:
    if EARLIER not in members:
        return None
    try:
        return read_line(members[EARLIER])
    except InputError as error:
        raise PackError(error.problem, where=EARLIER) from error


def concerns_record(event: ChainEvent, seq: int, record: DecisionRecord) -> bool:
    """Return whether an event at a place of the chain is part of what happened to a record.

    What happened to the decisions that it continues is part of it too, such as their approval.
    """
    earlier = {record.continues, record.root_id} - {None, record.decision_id}
    place = 0 if record.chain is None else record.chain.seq
    is_own = seq > place and concerns_decisions(event, {record.decision_id})
    is_approval = event.kind in APPROVAL_EVENTS
    return is_own or (is_approval and concerns_decisions(event, earlier))


def _read_events(members: Mapping[str, bytes], record: DecisionRecord) -> tuple[EventRow, ...]:
    if EVENTS not in members:
        return ()
    try:
        rows = decode_events(members[EVENTS])
        concern = [concerns_record(read_event(row), row.seq, record) for row in rows]
        exact = encode_events(rows) == members[EVENTS]
    except _UNREADABLE as error:
        raise PackError(f"not a list of events: {error}", where=EVENTS) from error
    if not rows or not exact:
        raise PackError("not written as packs are", where=EVENTS)
    places = [row.seq for row in rows]
    in_order = places == sorted(set(places))
    if not all(concern) or not in_order or any(row.tenant != record.tenant for row in rows):
        raise PackError("not events that concern the record", where=EVENTS)
    return rows


def _read_grants(members: Mapping[str, bytes], record: DecisionRecord) -> tuple[Grant, ...]:
    if GRANTS not in members:
        return ()
    try:
        grants = _decode_grants(members[GRANTS])
        exact = _encode_canonical(grants) == members[GRANTS]
        digests = [grant.compute_digest() for grant in grants]
    except _UNREADABLE as error:
        raise PackError(f"not a list of grants: {error}", where=GRANTS) from error
    if not grants or not exact:
        raise PackError("not written as packs are", where=GRANTS)
    recorded = () if record.personal is None else record.personal.grants
    if not {*digests} <= {grant.digest for grant in recorded}:
        raise PackError("not the grants that the record names", where=GRANTS)
    return grants

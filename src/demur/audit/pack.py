"""A pack: one decision with everything needed to make it again, anywhere, offline.

The manifest names the digest of every member and the signer, if there is one. The same decision
always gives the same file, and a single changed byte is detected.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from demur.audit.container import PackError, check_container, read_zip, write_zip
from demur.audit.lines import read_line, assemble_record, write_line
from demur.canonical import canonical_bytes, digest_of_bytes
from demur.classification.keys import KeyRing, SigningKey
from demur.errors import DemurError, InputError
from demur.model.record import ChainLink, DecisionRecord

__all__ = [
    "EARLIER",
    "MANIFEST",
    "MEMORY",
    "PACK_VERSION",
    "POLICY",
    "RECORD",
    "REGISTRY",
    "SEALED",
    "Pack",
    "PackError",
    "PackedExperience",
    "PackSignature",
    "read_pack",
    "write_pack",
]

PACK_VERSION = "decision_pack.v1"

MANIFEST = "manifest.json"
RECORD = "record.json"
SEALED = "sealed.json"
POLICY = "policy.yaml"
REGISTRY = "registry.json"
MEMORY = "memory.json"
EARLIER = "earlier.json"
_README = "README.txt"
_NEEDED = (RECORD, POLICY, REGISTRY, _README)
_OPTIONAL = (SEALED, MEMORY, EARLIER)
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
    """The content of a pack. `signed_by` is the holder of the trusted key, if it was checked."""

    record: DecisionRecord
    policy: str
    registry: str
    memory: tuple[PackedExperience, ...] = ()
    earlier: DecisionRecord | None = None
    signature: PackSignature | None = None
    signed_by: str | None = None


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
_decode_memory = msgspec.json.Decoder(tuple[PackedExperience, ...]).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, DemurError)


# -- writing -------------------------------------------------------------------------------


def write_pack(pack: Pack, key: SigningKey | None = None) -> bytes:
    """Return the bytes of the file, signed if there is a key to sign with."""
    record, members = pack.record, _build_members(pack)
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


def _build_members(pack: Pack) -> dict[str, bytes]:
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
    return members


# -- reading -------------------------------------------------------------------------------


def read_pack(raw: bytes, keys: KeyRing | None = None) -> Pack:
    """Return the content of a pack after checking every digest.

    With `keys`, one of them must have signed it.

    Raises:
        PackError: A byte was changed, or the signer is not trusted; `where` is the member.
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
        raise PackError(f"the manifest cannot be read: {error}", where=MANIFEST) from error
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
        problem = f"signed with the key `{signature.key_id}`, which is not trusted"
        raise PackError(problem, where=MANIFEST)
    if key.algorithm != signature.algorithm or not key.verify_signature(
        manifest.signed_bytes(), signature.value
    ):
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

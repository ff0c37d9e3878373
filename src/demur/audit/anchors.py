"""Anchors: signed heads of the chains, kept where the writers of the store cannot reach them.

Somebody who may write to the database can compute a whole chain anew. An anchor is a line of JSON
that says where each chain ended at some time, signed with a key of the kinds that sign grants. A
chain that was rewritten or cut off since then does not hold it any more.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from demur.audit.pack import PackSignature
from demur.canonical import canonical_bytes
from demur.errors import DemurError, InputError, error_reason
from demur.grants import KeyRing, SigningKey
from demur.store.rows import ChainHead, Checkpoint
from demur.store.spool import append_line

# Keys of grants sign anchors too; the prefix keeps the signatures apart.
_SIGNED = b"demur anchor.v1\n"


class AnchoredHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where one tenant's chain ended."""

    tenant: str
    seq: Annotated[int, msgspec.Meta(ge=0)]
    hash: Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}$")]


class ChainAnchor(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The heads of all chains at a time, signed."""

    created_at: str
    heads: tuple[AnchoredHead, ...]
    signature: PackSignature | None = None
    schema_version: Literal["chain_anchor.v1"] = "chain_anchor.v1"

    def signed_bytes(self) -> bytes:
        """Return what the signature covers."""
        return _SIGNED + _encode_anchor(msgspec.structs.replace(self, signature=None))

    @property
    def checkpoints(self) -> Iterator[Checkpoint]:
        """The heads with the time of the anchor, as `verify_chain` takes them."""
        for head in self.heads:
            yield Checkpoint(self.created_at, ChainHead(head.tenant, head.seq, head.hash))


class AnchorLine(NamedTuple):
    """An anchor that was read and checked, and the holder of the trusted key that signed it."""

    anchor: ChainAnchor
    signed_by: str


_decode_anchor = msgspec.json.Decoder(ChainAnchor).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, DemurError)


def _encode_anchor(anchor: ChainAnchor) -> bytes:
    # The schema version has a default, and is written all the same.
    plain = {"schema_version": anchor.schema_version, **msgspec.to_builtins(anchor)}
    return canonical_bytes(plain)


def write_anchor(heads: Iterable[ChainHead], created_at: str, key: SigningKey) -> bytes:
    """Return the signed anchor of these heads, as one line of canonical JSON."""
    plain = tuple(AnchoredHead(**head._asdict()) for head in heads)
    bare = ChainAnchor(created_at=created_at, heads=plain)
    value = key.sign(bare.signed_bytes())
    signature = PackSignature(key_id=key.key_id, algorithm=key.algorithm, value=value)
    return _encode_anchor(msgspec.structs.replace(bare, signature=signature)) + b"\n"


def read_anchor(line: bytes, keys: KeyRing) -> AnchorLine:
    """Return the anchor in a line, checked against its signature.

    Raises:
        InputError: It is no anchor, somebody changed it, or no trusted key signed it.
    """
    # INVARIANT: an anchor in which any byte was changed is refused.
    try:
        anchor = _decode_anchor(line)
        exact = _encode_anchor(anchor) == line.removesuffix(b"\n")
    except _UNREADABLE as error:
        raise InputError(f"not an anchor: {error}") from error
    signature = anchor.signature
    if not exact or signature is None:
        raise InputError("not an anchor as demur writes it")
    key = keys.get(signature.key_id)
    if key is None:
        raise InputError(f"signed with the key `{signature.key_id}`, which you do not trust")
    same = key.algorithm == signature.algorithm
    if not (same and key.verify_signature(anchor.signed_bytes(), signature.value)):
        raise InputError(f"the signature is not that of {key.holder}")
    return AnchorLine(anchor, key.holder)


def append_anchor(path: Path, line: bytes) -> None:
    """Append an anchor to a file durably; a new file is readable by its owner only.

    Raises:
        InputError: demur cannot write the file.
    """
    try:
        append_line(path, line)
    except (OSError, ValueError) as error:
        problem = f"cannot write the anchor: {error_reason(error)}"
        raise InputError(problem, where=str(path)) from error


def read_anchor_file(path: Path, keys: KeyRing) -> Sequence[AnchorLine]:
    """Return the anchors in a file, oldest first.

    Raises:
        InputError: The file cannot be read or is empty, or one of its lines is no trusted anchor.
    """
    try:
        lines = path.read_bytes().splitlines()
    except (OSError, ValueError) as error:
        problem = f"cannot read the anchors: {error_reason(error)}"
        raise InputError(problem, where=str(path)) from error
    found = []
    for number, line in enumerate(lines, start=1):
        if line:
            try:
                found.append(read_anchor(line, keys))
            except InputError as error:
                help_ = "delete a line that a crash cut short; the others still count"
                raise InputError(error.problem, where=f"{path}:{number}", help=help_) from error
    if not found:
        raise InputError("the file holds no anchors", where=str(path))
    return found

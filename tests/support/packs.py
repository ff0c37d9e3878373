"""Packs for tests: made by really deciding, taken apart, and forged as well as one can."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from demur.audit.pack import MANIFEST, RECORD, SEALED, read_zip, write_pack, write_zip
from demur.audit.report import export_pack
from demur.canonical import canonical_bytes, digest_of_bytes
from demur.gate.gate import Gate
from demur.model.record import DecisionRecord
from demur.store.rows import ChainHead, link_hash
from support.gates import stored

__all__ = ["Members", "changed_record", "changed_sealed", "forged", "packed", "repaired"]

Members = dict[str, bytes]


def packed(gate: Gate, record: DecisionRecord) -> bytes:
    """Return the pack of a decision that the gate stored."""
    return write_pack(export_pack(stored(gate), record))


def repaired(members: Mapping[str, bytes], **manifest_fields: Any) -> bytes:
    """Return a pack whose manifest names the digests of these members."""
    manifest = json.loads(members[MANIFEST])
    others = {name: raw for name, raw in members.items() if name != MANIFEST}
    manifest["members"] = {name: digest_of_bytes(raw) for name, raw in others.items()}
    manifest |= manifest_fields
    manifest = {key: value for key, value in manifest.items() if value is not None}
    manifest.pop("digest", None)
    manifest["digest"] = digest_of_bytes(canonical_bytes(manifest))
    return write_zip({**others, MANIFEST: canonical_bytes(manifest)})


def forged(raw: bytes, change: Callable[[Members], None]) -> bytes:
    """Return the pack after a change, with seal, link, manifest and container all made to fit."""
    members = read_zip(raw)
    change(members)
    record = json.loads(members[RECORD])
    if SEALED in members:
        record["sealed_digest"] = digest_of_bytes(members[SEALED])
    members[RECORD] = canonical_bytes(record)
    link = json.loads(members[MANIFEST]).get("chain")
    if link is not None:
        head = ChainHead(str(record.get("tenant")), link["seq"] - 1, link["previous"])
        link["hash"] = link_hash(head, record["decision_id"], members[RECORD])
    fitting = {"chain": link, "decision_id": record["decision_id"]}
    if isinstance(record.get("determinism"), dict):
        fitting["engine_version"] = record["determinism"].get("engine_version")
    return repaired(members, **fitting)


def changed_record(raw: bytes, **fields: Any) -> bytes:
    """Return the pack with other fields in its record, forged; None takes a field out."""

    def change(members: Members) -> None:
        record = {**json.loads(members[RECORD]), **fields}
        members[RECORD] = canonical_bytes({k: v for k, v in record.items() if v is not None})

    return forged(raw, change)


def changed_sealed(raw: bytes, **fields: Any) -> bytes:
    """Return the pack with other fields in its sealed half, forged."""

    def change(members: Members) -> None:
        sealed = {**json.loads(members[SEALED]), **msgspec.to_builtins(fields)}
        members[SEALED] = canonical_bytes(sealed)

    return forged(raw, change)

"""Exported heads: the ends of chains, kept outside the store.

Someone who can write to the database can build a shorter chain that is valid in itself. A head
that was exported before, to a place they cannot write to, reveals that.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from demur.errors import InputError
from demur.store.rows import ChainHead

__all__ = ["HEADS_SCHEMA", "heads_document", "read_heads"]

HEADS_SCHEMA = "chain_heads.v1"


class _HeadEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tenant: str
    seq: Annotated[int, msgspec.Meta(ge=0)]
    hash: Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}$")]


class _HeadsDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema_version: Literal["chain_heads.v1"]
    created_at: str
    heads: tuple[_HeadEntry, ...]


def heads_document(heads: Iterable[ChainHead], created_at: str) -> dict[str, Any]:
    """Return heads as plain JSON, for a file outside the store."""
    return {
        "schema_version": HEADS_SCHEMA,
        "created_at": created_at,
        "heads": [head._asdict() for head in heads],
    }


def read_heads(document: object) -> list[ChainHead]:
    """Return the heads in a document that `heads_document` made.

    Raises:
        InputError: It is no document of heads.
    """
    try:
        read = msgspec.convert(document, _HeadsDocument)
    except msgspec.ValidationError as error:
        raise InputError(f"no exported heads: {error}") from error
    return [ChainHead(head.tenant, head.seq, head.hash) for head in read.heads]

"""The hash chain of a tenant's records: each link covers the record and all before it."""

import hashlib

from demur.store.rows import ChainHead

__all__ = ["GENESIS", "genesis_head", "link_hash"]

GENESIS = "sha256:" + "0" * 64
_DOMAIN = b"demur chain.v1\n"


def genesis_head(tenant: str) -> ChainHead:
    """Return the head of a chain that has no records yet."""
    return ChainHead(tenant, 0, GENESIS)


def link_hash(head: ChainHead, decision_id: str, record: bytes) -> str:
    """Return the hash of the link that follows `head` and covers `record`.

    It also covers tenant, place and id, so that a link is valid at its own place only.
    """
    place = f"{head.tenant}\n{head.seq + 1}\n{decision_id}\n{head.hash}\n"
    return f"sha256:{hashlib.sha256(_DOMAIN + place.encode() + record).hexdigest()}"

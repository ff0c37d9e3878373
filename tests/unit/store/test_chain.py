from store_records import DIGEST

from demur.store.chain import GENESIS, genesis_head, link_hash
from demur.store.rows import ChainHead

HEAD = ChainHead("acme", 3, DIGEST)


def test_a_chain_begins_at_nothing() -> None:
    assert genesis_head("acme") == ("acme", 0, GENESIS)


def test_a_link_fits_nowhere_else() -> None:
    hashes = {
        link_hash(HEAD, "01J", b"{}"),
        link_hash(HEAD._replace(tenant="other"), "01J", b"{}"),
        link_hash(HEAD._replace(seq=4), "01J", b"{}"),
        link_hash(HEAD._replace(hash=GENESIS), "01J", b"{}"),
        link_hash(HEAD, "01K", b"{}"),
        link_hash(HEAD, "01J", b"{ }"),
    }

    assert len(hashes) == 6


def test_the_link_is_pinned() -> None:
    assert link_hash(genesis_head("acme"), "01J", b"{}") == (
        "sha256:915bfbfa2d717ccc3403bacc16bcc4c32275a6124b3e86dd5e2a13de73cf9638"
    )

import json

import pytest
from store_records import DIGEST, moment

from demur.errors import InputError
from demur.store.heads import heads_document, read_heads
from demur.store.rows import ChainHead

HEADS = [ChainHead("acme", 3, DIGEST), ChainHead("other", 0, DIGEST)]


def test_heads_come_back_from_a_file() -> None:
    document = json.loads(json.dumps(heads_document(HEADS, moment(1))))

    assert document["schema_version"] == "chain_heads.v1"
    assert document["created_at"] == moment(1)
    assert read_heads(document) == HEADS


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"schema_version": "chain_heads.v2", "created_at": "", "heads": []},
        {"schema_version": "chain_heads.v1", "created_at": "", "heads": [["acme", 1, DIGEST]]},
        heads_document([ChainHead("acme", -1, DIGEST)], ""),
        heads_document([ChainHead("acme", 1, "abc")], ""),
        {**heads_document(HEADS, ""), "more": 1},
    ],
)
def test_what_is_no_such_document_is_refused(document: object) -> None:
    with pytest.raises(InputError, match="no exported heads"):
        read_heads(document)

import msgspec
import pytest
from store_records import DIGEST, decision_id, make_record, moment

from demur.model.record import Amount
from demur.store.backend import StorageError
from demur.store.columns import row_to_record, record_to_row
from demur.store.rows import RecordRow


def test_a_row_repeats_what_people_query() -> None:
    row = record_to_row(make_record(7, request_id="r-7", root_id=decision_id(1)))

    assert row[:15] == (
        decision_id(7),
        moment(7),
        "acme",
        "r-7",
        decision_id(1),
        "user:ada",
        "ESCALATE",
        "NEED_CONTEXT",
        "WORKFLOW_BLOCK",
        "refund",
        400.0,
        "USD",
        ("REFUND_OVER_ESCALATION_LIMIT",),
        DIGEST,
        DIGEST,
    )
    assert all(type(value) is not int for value in row)


@pytest.mark.parametrize(
    ("amount", "columns"),
    [
        (None, (None, None)),
        (Amount(value=None, currency="EUR"), (None, "EUR")),
        (Amount(value=0.5, currency=None), (0.5, None)),
    ],
)
def test_an_amount_may_lack_its_parts(
    amount: Amount | None, columns: tuple[float | None, str | None]
) -> None:
    row = record_to_row(make_record(amount=amount))

    assert (row.amount_value, row.amount_currency) == columns


def test_a_record_without_class_or_sealed_part_has_empty_columns() -> None:
    record = msgspec.structs.replace(make_record(refusal_class=None), sealed=None)
    row = record_to_row(record)

    assert (row.refusal_class, row.subject, row.sealed) == (None, None, None)


def test_a_record_comes_back_as_it_was_with_its_place() -> None:
    record = make_record()
    row = record_to_row(record)
    back = row_to_record(
        RecordRow(row.decision_id, row.tenant, row.record, row.sealed, 3, "before", "own")
    )

    assert back.chain is not None
    assert (back.chain.seq, back.chain.previous, back.chain.hash) == (3, "before", "own")
    assert back.open_bytes() == record.open_bytes()
    assert back.sealed == record.sealed
    assert back.seal_holds


@pytest.mark.parametrize("raw", [b"", b"{}", b"\xff", b'{"decision_id":"\xff"}'])
def test_what_is_no_record_is_told_by_its_id(raw: bytes) -> None:
    with pytest.raises(StorageError, match="not a decision record") as caught:
        row_to_record(RecordRow("01J", "acme", raw, None, 1, "", ""))

    assert caught.value.where == "01J"

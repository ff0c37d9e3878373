import msgspec
from store_records import make_record, personal

from demur.audit.difference import FieldDifference, record_differences, sealed_differences
from demur.codes.vocabulary import Verdict
from demur.model.record import ChainLink, MatchedRule

RECORD = make_record()


def test_a_record_does_not_differ_from_itself() -> None:
    assert list(record_differences(RECORD, make_record())) == []


def test_each_field_that_differs_is_named_with_both_values_in_plain_json() -> None:
    other = msgspec.structs.replace(
        RECORD, verdict=Verdict.DENY, matched_rules=(MatchedRule(rule_id="R", stage="S"),)
    )

    assert list(record_differences(RECORD, other)) == [
        FieldDifference("verdict", "ESCALATE", "DENY"),
        FieldDifference(
            "matched_rules",
            [{"rule_id": "R_REFUND_LIMIT", "stage": "ESCALATIONS"}],
            [{"rule_id": "R", "stage": "S"}],
        ),
    ]


def test_of_a_part_with_fields_the_field_is_named() -> None:
    policy = msgspec.structs.replace(RECORD.policy, mode="advisory")
    other = msgspec.structs.replace(RECORD, policy=policy, amount=None)

    assert [difference.field for difference in record_differences(RECORD, other)] == [
        "policy.mode",
        "amount",
    ]


def test_digests_links_and_the_version_of_the_engine_are_not_compared() -> None:
    determinism = msgspec.structs.replace(RECORD.determinism, engine_version="9.9.9")
    link = ChainLink(seq=1, previous="", hash="")
    other = msgspec.structs.replace(
        RECORD, determinism=determinism, chain=link, sealed=None, sealed_digest=""
    )

    assert list(record_differences(RECORD, other)) == []


def test_what_redaction_blotted_out_is_not_compared() -> None:
    other = msgspec.structs.replace(RECORD, request_id="r-[removed]")

    assert list(record_differences(RECORD, other)) == []
    assert list(record_differences(other, RECORD)) == [
        FieldDifference("request_id", "r-[removed]", None)
    ]


def test_fields_of_the_sealed_half_say_so() -> None:
    found = sealed_differences(personal(), personal(requester="user:eve"), ["requester", "scope"])

    assert list(found) == [FieldDifference("sealed.requester", "user:ada", "user:eve")]

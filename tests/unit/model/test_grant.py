from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.vocabulary import GrantKind
from demur.errors import GrantError
from demur.model.grant import Grant

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FIELDS: dict[str, Any] = {
    "grant_id": "g1",
    "kind": GrantKind.APPROVAL,
    "granted_by": "user:mary",
    "granted_to": "agent:a",
    "scope": {"action": "refund"},
    "not_before": NOON,
    "expires_at": NOON + timedelta(hours=1),
    "key_id": "k1",
    "algorithm": "hmac-sha256",
}
SCOPES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xyz"), max_size=4)


def test_it_survives_json() -> None:
    grant = Grant(**FIELDS)

    assert Grant.from_json(grant.to_json()) == grant


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"grant_id": ""}, "needs `grant_id`"),
        ({"granted_by": ""}, "needs `granted_by`"),
        ({"scope": {}}, "needs a scope"),
        ({"scope": {"amount": 5}}, "strings for keys and values"),
        ({"not_before": NOON.replace(tzinfo=None)}, "needs a time zone"),
        ({"expires_at": NOON}, "expires after it begins"),
    ],
)
def test_a_malformed_one_cannot_be_built(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(GrantError, match=problem):
        Grant(**{**FIELDS, **change})


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"grant_id": 5}', b"\xff", '{"surprise": 1}'])
def test_a_malformed_grant_is_an_error(text: bytes | str) -> None:
    with pytest.raises(GrantError, match="not a grant"):
        Grant.from_json(text)


@pytest.mark.parametrize(
    "change",
    [
        {"grant_id": "g2"},
        {"kind": GrantKind.SCOPE},
        {"granted_by": "user:eve"},
        {"granted_to": "agent:b"},
        {"scope": {"action": "*"}},
        {"not_before": NOON - timedelta(days=1)},
        {"expires_at": NOON + timedelta(days=1)},
        {"key_id": "k2"},
        {"algorithm": "ed25519"},
        {"codes": ("APPROVAL_REQUIRED",)},
    ],
)
def test_every_field_is_under_the_signature(change: dict[str, Any]) -> None:
    grant = Grant(**FIELDS)

    assert msgspec.structs.replace(grant, **change).signed_bytes() != grant.signed_bytes()


def test_the_signature_is_not_under_itself_and_the_time_zone_does_not_matter() -> None:
    grant = Grant(**FIELDS)
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5)))

    assert msgspec.structs.replace(grant, signature="x").signed_bytes() == grant.signed_bytes()
    assert msgspec.structs.replace(grant, not_before=elsewhere).signed_bytes() == (
        grant.signed_bytes()
    )


@given(st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xyz*"), min_size=1), SCOPES)
def test_a_grant_never_covers_a_scope_that_lacks_one_of_its_keys(
    granted: dict[str, str], asked: dict[str, str]
) -> None:
    """INVARIANT: a grant never covers a scope that lacks one of its keys."""
    covers = Grant(**{**FIELDS, "scope": granted}).covers_scope(asked)

    if not granted.keys() <= asked.keys():
        assert not covers
    else:
        assert covers is all(value in {"*", asked[key]} for key, value in granted.items())


@pytest.mark.parametrize(
    "name", [" user:mary", "user:mary ", "user:ma\u200bry", "user:m\u0061\u0308ry"]
)
def test_a_name_that_only_looks_like_another_is_refused(name: str) -> None:
    with pytest.raises(GrantError, match="plain text without outer spaces"):
        Grant(**{**FIELDS, "granted_to": name})


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_at_the_end_of_time_is_no_grant(moment: str) -> None:
    text = Grant(**FIELDS).to_json().replace(b"2026-11-15T12:00:00Z", moment.encode())

    with pytest.raises(GrantError, match="not a grant: `not_before` is out of range"):
        Grant.from_json(text)


def test_the_signed_bytes_are_part_of_the_contract() -> None:
    assert Grant(**FIELDS).signed_bytes() == (
        b"demur grant.v1\n"
        b'{"algorithm":"hmac-sha256","codes":[],"expires_at":"2026-11-15T13:00:00+00:00",'
        b'"grant_id":"g1","granted_by":"user:mary","granted_to":"agent:a","key_id":"k1",'
        b'"kind":"approval","not_before":"2026-11-15T12:00:00+00:00",'
        b'"schema_version":"grant.v1","scope":{"action":"refund"}}'
    )

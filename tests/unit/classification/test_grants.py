from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.classification.grants import GrantRejection, sign_grant, check_grant
from demur.classification.keys import KeyRing, SigningKey
from demur.codes.vocabulary import GrantKind
from demur.errors import GrantError, InputError, InputTypeError
from demur.model.grant import Grant

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
KEY = SigningKey.from_randomness(bytes(32), key_id="k1", holder="user:mary")
RING = KeyRing([KEY.trusted_key()])


def grant(key: SigningKey = KEY, **change: Any) -> Grant:
    fields: dict[str, Any] = {
        "grant_id": "g1",
        "kind": "approval",
        "granted_to": "agent:a",
        "scope": {"action": "refund"},
        "not_before": NOON,
        "expires_at": NOON + timedelta(hours=1),
    }
    return sign_grant(key, **{**fields, **change})


def test_a_genuine_grant_is_believed_from_its_first_to_its_last_moment() -> None:
    assert check_grant(grant(), RING, now=NOON) is None
    assert check_grant(grant(), RING, now=NOON + timedelta(minutes=59)) is None
    assert check_grant(grant(), RING, now=NOON + timedelta(hours=1)) is GrantRejection.EXPIRED
    assert (
        check_grant(grant(), RING, now=NOON - timedelta(seconds=1)) is GrantRejection.NOT_YET_VALID
    )


def resigned(**change: Any) -> Grant:
    """Return a grant with other words, signed again by the same key."""
    changed = msgspec.structs.replace(grant(), **change)
    return msgspec.structs.replace(changed, signature=KEY.sign(changed.signed_bytes()))


def test_each_rejection_has_its_cause() -> None:
    limited = SigningKey.from_randomness(
        bytes(32), key_id="k1", holder="user:mary", kinds=[GrantKind.SCOPE]
    )
    other = SigningKey.from_randomness(
        bytes(32), key_id="k1", holder="user:mary", algorithm="ed25519"
    )

    def why(asked: Grant, ring: KeyRing = RING, revoked: tuple[str, ...] = ()) -> str | None:
        return check_grant(asked, ring, now=NOON, revoked=revoked)

    assert why(grant(), KeyRing()) is GrantRejection.UNKNOWN_KEY
    assert why(grant(), KeyRing([other.trusted_key()])) is GrantRejection.WRONG_ALGORITHM
    assert why(msgspec.structs.replace(grant(), granted_to="x")) is GrantRejection.BAD_SIGNATURE
    assert why(resigned(granted_by="user:ceo")) is GrantRejection.WRONG_HOLDER
    assert why(grant(), KeyRing([limited.trusted_key()])) is GrantRejection.KIND_NOT_PERMITTED
    assert why(resigned(granted_to="user:mary")) is GrantRejection.GRANTED_TO_SELF
    assert why(grant(), revoked=("g1",)) is GrantRejection.REVOKED


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_a_change_to_any_byte_of_a_grant_is_noticed(position: int, flip: int) -> None:
    text = bytearray(grant().to_json())
    text[position % len(text)] ^= flip

    try:
        changed = Grant.from_json(bytes(text))
    except GrantError:
        return
    # Base64 has spellings that differ in unused bits; the words themselves must not differ.
    if check_grant(changed, RING, now=NOON) is None:
        assert changed.signed_bytes() == grant().signed_bytes()


def test_what_cannot_be_granted_is_refused_at_signing() -> None:
    limited = SigningKey.from_randomness(
        bytes(32), key_id="k1", holder="user:mary", kinds=[GrantKind.SCOPE]
    )

    with pytest.raises(GrantError, match="may not grant `approval`"):
        grant(limited)
    with pytest.raises(GrantError, match="grant to themselves"):
        grant(granted_to="user:mary")
    with pytest.raises(GrantError, match="unknown kind of grant `magic`"):
        grant(kind="magic")


def test_the_clock_needs_a_time_zone() -> None:
    with pytest.raises(InputError, match="time zone"):
        check_grant(grant(), RING, now=NOON.replace(tzinfo=None))


def test_what_has_no_bytes_was_never_signed() -> None:
    odd = msgspec.structs.replace(grant(), scope={"action": "\ud800"})

    assert check_grant(odd, RING, now=NOON) is GrantRejection.BAD_SIGNATURE


def test_the_clock_is_a_datetime() -> None:
    with pytest.raises(InputTypeError, match="must be a datetime"):
        check_grant(grant(), RING, now="2026")  # type: ignore[arg-type]

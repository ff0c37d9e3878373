import sys

import pytest

from demur.classification.keys import KeyRing, SigningKey, TrustedKey
from demur.codes.vocabulary import GrantKind
from demur.errors import GrantError, InputTypeError, MissingExtraError
from demur.model.grant import Algorithm

ALGORITHMS: list[Algorithm] = ["ed25519", "hmac-sha256"]


def key(algorithm: Algorithm = "hmac-sha256", seed: int = 0) -> SigningKey:
    randomness = bytes([seed]) * 32
    return SigningKey.from_randomness(
        randomness, key_id="k1", holder="user:mary", algorithm=algorithm
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signature_holds_for_its_message_and_key_alone(algorithm: Algorithm) -> None:
    signature = key(algorithm).sign(b"message")

    assert key(algorithm).trusted_key().verify_signature(b"message", signature)
    assert not key(algorithm).trusted_key().verify_signature(b"massage", signature)
    assert not key(algorithm, seed=1).trusted_key().verify_signature(b"message", signature)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("signature", ["", "!!!", "é", "AAAA"])
def test_rubbish_verifies_nothing(algorithm: Algorithm, signature: str) -> None:
    assert not key(algorithm).trusted_key().verify_signature(b"message", signature)


def test_only_ed25519_hides_the_secret_from_those_who_verify() -> None:
    assert key("ed25519").trusted_key().material != key("ed25519").secret
    assert key("hmac-sha256").trusted_key().material == key("hmac-sha256").secret


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_secret_is_shown_by_accident(algorithm: Algorithm) -> None:
    made = key(algorithm)

    assert made.secret not in repr(made)
    assert made.trusted_key().material not in repr(made.trusted_key())


def test_a_key_may_be_limited_to_kinds() -> None:
    made = SigningKey.from_randomness(bytes(32), key_id="k", holder="h", kinds=[GrantKind.SCOPE])

    assert made.trusted_key().may_grant(GrantKind.SCOPE)
    assert not made.trusted_key().may_grant(GrantKind.APPROVAL)
    assert key().trusted_key().may_grant(GrantKind.APPROVAL)


@pytest.mark.parametrize("material", ["", "AAAA", "not base64!", "ü"])
def test_a_key_of_the_wrong_size_is_refused(material: str) -> None:
    with pytest.raises(GrantError, match="32 bytes"):
        TrustedKey(key_id="k", holder="h", algorithm="ed25519", material=material)
    with pytest.raises(GrantError, match="32 bytes"):
        SigningKey(key_id="k", holder="h", algorithm="ed25519", secret=material)


def test_a_ring_holds_keys_by_id_and_no_two_under_one() -> None:
    one = key().trusted_key()

    ring = KeyRing([one, one])
    assert dict(ring) == {"k1": one}
    assert len(ring) == 1
    with pytest.raises(GrantError, match="two different keys"):
        KeyRing([one, key(seed=1).trusted_key()])


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "demur.classification.ed25519", None)

    with pytest.raises(MissingExtraError) as caught:
        key("ed25519").sign(b"x")
    assert "demur[ed25519]" in str(caught.value.help)


def test_randomness_is_bytes() -> None:
    with pytest.raises(InputTypeError, match="must be bytes"):
        SigningKey.from_randomness("0" * 32, key_id="k", holder="h")  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signature_has_one_spelling(algorithm: Algorithm) -> None:
    signature = key(algorithm).sign(b"message")

    assert not key(algorithm).trusted_key().verify_signature(b"message", f"{signature}\n")
    assert not key(algorithm).trusted_key().verify_signature(b"message", f"!{signature}")


def test_a_key_needs_an_id_a_holder_and_a_known_algorithm() -> None:
    with pytest.raises(GrantError, match="an id and a holder"):
        SigningKey.from_randomness(bytes(32), key_id="", holder="h")
    with pytest.raises(GrantError, match="unknown algorithm `none`"):
        SigningKey.from_randomness(bytes(32), key_id="k", holder="h", algorithm="none")  # type: ignore[arg-type]

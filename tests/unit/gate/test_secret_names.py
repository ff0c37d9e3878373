import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.canonical import canonical_bytes
from demur.errors import InputError
from demur.gate import secret_names
from demur.gate.secret_names import (
    _SECRET_ENDINGS,
    _SECRET_KEYS,
    is_secret,
    may_hold_secrets,
)


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "Password",
        "PASSWORD",
        "password2",
        "user_password",
        "userPassword",
        "dbpassword",
        "passwords",
        "token",
        "apiToken",
        "api_token",
        "tokens",
        "accesstoken",
        "API_KEY",
        "APIKey",
        "apikey",
        "x-api-key",
        "X-Api-Key",
        "aws_secret_access_key",
        "secret_2",
        "clientSecret",
        "Set-Cookie",
        "cookies",
        "Authorization",
        "credentials",
        "pin",
        "card.pin",
        "cardNumber",
        "cvv2",
        "ssn",
        "iban",
        "jwt",
        "otp",
        "pwd",
        "private_key",
        "privateKey",
    ],
)
def test_a_name_whose_last_words_name_a_secret_is_one(name: str) -> None:
    assert is_secret(name)
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_",
        "42",
        "token_count",
        "tokenizer",
        "max_tokens_used",
        "password_reset_requested",
        "secretary",
        "pinned",
        "spin",
        "shopping",
        "key",
        "monkey",
        "ticket_id",
        "passengers",
        "compass",
        "mapping",
        "Straße",
        "пароль",
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert not is_secret(name)


def test_what_is_remembered_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, bool] = {}
    monkeypatch.setattr(secret_names, "known_names", known)
    monkeypatch.setattr(secret_names, "_MOST_NAMES", 2)

    assert is_secret("x" * 65 + "_password")
    assert known == {}
    assert [is_secret(name) for name in ("a", "token", "pin", "b")] == [False, True, True, False]
    assert known == {"a": False, "token": True}


PIECES = st.sampled_from([*"_-. éß0A", "to", "ken", "Token", "api", "KEY", "pin", "s", "x", "pwd"])


@given(st.lists(PIECES | st.characters(), max_size=8).map("".join))
def test_what_names_a_secret_is_never_cleared_by_the_quick_look(key: str) -> None:
    try:
        raw = canonical_bytes({"outer": [{key: 1}]})
    except InputError:
        return

    assert may_hold_secrets(raw) or not is_secret(key)


@pytest.mark.parametrize("name", [*_SECRET_KEYS, *_SECRET_ENDINGS])
def test_the_quick_look_stops_at_every_name(name: str) -> None:
    for spelled in (name, name.upper(), name.title(), name.replace("_", "-"), f"my_{name}s2"):
        assert may_hold_secrets(canonical_bytes({spelled: 1}))


def test_the_quick_look_clears_an_ordinary_request() -> None:
    assert not may_hold_secrets(canonical_bytes({"action": {"type": "refund", "amount": 5}}))

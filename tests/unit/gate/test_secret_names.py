import pytest

from demur.gate import secret_names
from demur.gate.secret_names import is_secret_name


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
    assert is_secret_name(name)
    assert is_secret_name(name)


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
    assert not is_secret_name(name)


def test_what_is_remembered_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, bool] = {}
    monkeypatch.setattr(secret_names, "_known_names", known)
    monkeypatch.setattr(secret_names, "_MAX_NAMES", 2)

    assert is_secret_name("x" * 65 + "_password")
    assert known == {}
    assert [is_secret_name(name) for name in ("a", "token", "pin", "b")] == [
        False,
        True,
        True,
        False,
    ]
    assert known == {"a": False, "token": True}

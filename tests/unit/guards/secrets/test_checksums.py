import pytest
from made_secrets import github_token

from demur.guards.secrets.checksums import base62_crc32, ends_in_crc32, luhn_holds, mod97_holds


def test_a_token_ends_in_the_checksum_of_its_body() -> None:
    token = github_token()

    assert ends_in_crc32(token)
    assert not ends_in_crc32(token[:-1] + "_")
    assert not ends_in_crc32(token.replace(token[5], "~" if token[5] != "~" else "!", 1))


def test_the_checksum_has_six_digits() -> None:
    assert {len(base62_crc32(str(number))) for number in range(500)} == {6}


@pytest.mark.parametrize("digits", ["4111111111111111", "378282246310005", "79927398713"])
def test_luhn_holds_for_numbers_with_their_check_digit(digits: str) -> None:
    assert luhn_holds(digits)
    assert not luhn_holds(digits[:-1] + str((int(digits[-1]) + 1) % 10))


def test_mod_97_holds_for_accounts_with_their_check_digits() -> None:
    assert mod97_holds("GB82WEST12345698765432")
    assert not mod97_holds("GB83WEST12345698765432")

import hashlib

import pytest
from support.fake_secrets import HEX, LETTERS, drawn, github_token

from demur.guards.output import OutputConfig, OutputText, check
from demur.guards.secret_values import (
    ASSIGNED_SECRETS,
    LOOSE_SECRETS,
    base62_crc32,
    bits_per_character,
    count_classes,
    ends_in_crc32,
    is_placeholder,
    is_random,
    luhn_holds,
    mask_secret,
    mixing_share,
    mod97_holds,
    secret_match,
)
from demur.model.finding import Action


def test_bits_grow_with_the_number_of_different_characters() -> None:
    assert bits_per_character("") == 0
    assert bits_per_character("aaaa") == 0
    assert bits_per_character("abab") == 1
    assert bits_per_character("0123456789abcdef") == 4


def test_classes_counts_the_kinds_of_characters() -> None:
    assert [count_classes(text) for text in ("", "a", "aB", "aB1", "aB1!")] == [0, 1, 2, 3, 4]


def test_mixing_is_the_share_of_changes() -> None:
    assert mixing_share("") == mixing_share("a") == mixing_share("--") == 0
    assert mixing_share("abcd") == 0
    assert mixing_share("a1b2") == 1
    assert mixing_share("a-1") == 1


@pytest.mark.parametrize("text", [drawn(16), drawn(64), drawn(32, HEX), drawn(40, HEX.upper())])
def test_drawn_words_are_random(text: str) -> None:
    assert is_random(text)


@pytest.mark.parametrize(
    "text",
    [
        "short1A",
        drawn(20, HEX),
        "0" * 40,
        "correct-horse-battery-staple",
        "my_database_table_name_number_2",
        "getUserAccessTokenFromRequest2",
        "abcdefghijklmnopqrst",
        "aA1aA1aA1aA1aA1aA1",
    ],
)
def test_names_and_words_are_not_random(text: str) -> None:
    assert not is_random(text)


@pytest.mark.parametrize(
    "value",
    [
        "changeme",
        "CHANGE_ME_1",
        "<your-key>",
        "${TOKEN}",
        "$TOKEN",
        "{{ secret }}",
        "%(password)s",
        "xxxxxxxx",
        "****",
        "abc...xyz",
        "[REDACTED]",
        "my-secret-2024",
        "test-key-1",
        "P@ssword12345",
        "insert_key_here",
        "EXAMPLE",
    ],
)
def test_a_stand_in_for_a_secret_is_a_placeholder(value: str) -> None:
    assert is_placeholder(value)


@pytest.mark.parametrize(
    "value", [drawn(24), drawn(40, HEX), "Blue7Tram!x", "latestA1b2C3", "pa$s"]
)
def test_a_possible_secret_is_not_a_placeholder(value: str) -> None:
    assert not is_placeholder(value) or value == "pa$s"


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


def test_of_a_long_secret_four_characters_are_shown() -> None:
    assert mask_secret("abcdefghijklmnop") == "abcd… (16 characters)"


def test_of_a_short_secret_nothing_is_shown() -> None:
    assert mask_secret("abcdefgh") == "… (8 characters)"


def test_a_sighting_covers_the_secret() -> None:
    seen = secret_match("some key", "x" * 20, 7, Action.WARN)

    assert (seen.start, seen.end, seen.code) == (7, 27, "SECRET_LEAK")
    assert seen.detail == "some key xxxx… (20 characters)"
    assert seen.evidence == {"kind": "some key"}


VALUE = drawn(24)
CHOSEN = "Blue7Tram!x"


def actions(text: str) -> list[Action]:
    config = OutputConfig(loose_secrets=False, personal=None)
    return [
        finding.action
        for finding in check(OutputText(text), config)
        if finding.code == "SECRET_LEAK"
    ]


@pytest.mark.parametrize(
    "text",
    [
        f'api_key = "{VALUE}"',
        f"DB_PASSWORD={VALUE}",
        f"  client_secret: {VALUE},",
        f'"accessToken": "{VALUE}"',
        f"token := '{VALUE}'",
        f"'secret' => '{VALUE}'",
        f"Authorization: Bearer {VALUE}",
        f'{{\\"password\\": \\"{VALUE}\\"}}',
        f"**API key:** `{VALUE}`",
        f"signing-key={drawn(40, HEX)}",
    ],
)
def test_a_random_value_under_a_secret_name_is_blocked(text: str) -> None:
    assert actions(text) == [Action.BLOCK]


@pytest.mark.parametrize(
    "text",
    [
        f'password = "{CHOSEN}"',
        f"The admin password is {CHOSEN}.",
        f"The new token is {VALUE}.",
        "api_key: 4f3c2b1a-9d8e-4c7b-a6f5-0e1d2c3b4a59",
    ],
)
def test_a_password_that_a_person_may_have_invented_is_only_recorded(text: str) -> None:
    assert actions(text) == [Action.WARN]


@pytest.mark.parametrize(
    "text",
    [
        'password = "changeme"',
        'password = "<your-password>"',
        "API_KEY=${API_KEY}",
        "token = os.environ['TOKEN']",
        "token = settings.auth.token2",
        "secret: vault:kv/app#A1b2C3d4E5f6G7h8",
        "secret = get_secret('db-A1b2C3d4E5f6')",
        "password == user.password_A1b2C3d4",
        "password: use at least twelve characters",
        f"public_key: {VALUE}",
        f"csrf_token: {VALUE}",
        f"next page token: {VALUE}",
        f"password_hash = {drawn(64, HEX)}",
        f"commit: {drawn(40, HEX)}",
        "tokens: 4096",
        "The secret is patience.",
        "The password is stored as a hash.",
        "compass: N45W12A7B3",
        f"https://host/?q=1:{VALUE}",
        "password:",
        "secret = 'A b c 1 2 3 D e f'",
    ],
)
def test_placeholders_code_and_open_names_pass(text: str) -> None:
    assert actions(text) == []


def test_only_the_value_is_marked() -> None:
    text = f'x = 1; api_key = "{VALUE}"; y = 2'
    [seen], _ = ASSIGNED_SECRETS.search(text, 0, True)

    assert text[seen.start : seen.end] == VALUE


def test_an_unquoted_value_ends_before_punctuation() -> None:
    text = f"The API key: {VALUE}."
    [seen], _ = ASSIGNED_SECRETS.search(text, 0, True)

    assert text[seen.start : seen.end] == VALUE


def test_an_unclosed_quote_is_cut_at_a_bound() -> None:
    value = drawn(400)
    [seen], _ = ASSIGNED_SECRETS.search(f'token = "{value}', 0, True)

    assert seen.end - seen.start == 200


def test_the_documented_example_of_a_cloud_key_only_goes_on_record() -> None:
    example = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"

    assert actions(f"aws_secret_access_key = {example}") == [Action.WARN]
    assert actions(f"Secret access key: {drawn(40, LETTERS + '/+')}") == [Action.BLOCK]


@pytest.mark.parametrize("text", ["password", "password =", 'password = "', f"token: {VALUE}"])
def test_a_value_that_may_go_on_is_not_decided_yet(text: str) -> None:
    seen, undecided = ASSIGNED_SECRETS.search(text, 0, False)

    assert seen == ()
    assert undecided < len(text)


WORD = drawn(48)


def test_a_random_word_goes_on_record() -> None:
    [seen], _ = LOOSE_SECRETS.search(f"It printed {WORD} and stopped.", 0, True)

    assert (seen.start, seen.end, seen.action) == (11, 11 + len(WORD), Action.WARN)


@pytest.mark.parametrize(
    "text",
    [
        drawn(64, HEX),
        "4F3C2B1A-9D8E-4C7B-A6F5-0E1D2C3B4A59",
        f"sha256-{WORD}",
        f"data:image/png;base64,{WORD}",
        f"https://host/d/{WORD}",
        f"src/{WORD}/a/b/c",
        "ThisIsAVeryLongNameOfAClassInSomeProgram2",
        "AAAABBBBCCCCDDDD1111222233334444aaaa",
        drawn(300),
        "a_long_name_in_snake_case_that_goes_on_and_on_1_A",
        hashlib.sha1(b"x", usedforsecurity=False).hexdigest(),
    ],
)
def test_hashes_names_paths_and_data_pass(text: str) -> None:
    assert LOOSE_SECRETS.search(text, 0, True).matches == ()


def test_a_word_that_may_go_on_is_not_decided_yet() -> None:
    assert LOOSE_SECRETS.search(f"It printed {WORD}", 0, False) == ((), 11)
    assert LOOSE_SECRETS.search(f"{drawn(200)} {WORD} {WORD}", 0, False).undecided == 250
    assert len(LOOSE_SECRETS.search(f"{WORD} {WORD} ", 0, False).matches) == 2
    assert LOOSE_SECRETS.search("x" * 500, 0, False).undecided == 500 - 136


def test_letters_alone_are_no_secret() -> None:
    assert LOOSE_SECRETS.search(drawn(48, LETTERS[:52]), 0, True).matches == ()

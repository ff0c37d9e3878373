import base64
import re
from importlib import import_module
from typing import Any

import pytest
from support.fake_secrets import MADE, drawn, github_token, private_key, web_token
from support.fake_secrets import drawn as made

from demur.guards.output import OutputConfig, OutputText, check
from demur.guards.secret_formats import (
    FORMATS,
    FORMATTED_SECRETS,
    MAX_ANCHOR_LENGTH,
    PRIVATE_KEYS,
    SecretFormat,
    check_random,
    check_test_key,
    check_url_password,
)
from demur.guards.secret_values import base62_crc32
from demur.model.finding import Action, Finding

SECRET = re.compile(r"key-(?P<secret>.*)")
ADDRESS = re.compile(r"(?P<user>\w*):(?P<secret>\w+)@(?P<host>.+)")


def match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.match(text)
    assert found is not None
    return found


def test_a_value_of_few_different_characters_was_not_drawn() -> None:
    assert check_random("", match(SECRET, "key-ababababab")) is None
    assert check_random("", match(SECRET, f"key-{made(20)}")) is Action.BLOCK


def test_a_value_that_is_not_random_is_not_a_test_key_either() -> None:
    assert check_test_key("", match(SECRET, "key-ababababab")) is None


def test_a_password_that_repeats_the_user_is_for_trying_things_out() -> None:
    assert check_url_password("", match(ADDRESS, "shopkeeper:shopkeeper@db")) is None
    assert check_url_password("", match(ADDRESS, f"shopkeeper:{made(12)}@db")) is Action.BLOCK
    assert (
        check_url_password("", match(ADDRESS, f"shopkeeper:{made(12)}@db.example.com"))
        is Action.WARN
    )
    for host in ("203.0.113.7", "db.corp.test", "example", "[2001:db8::5]", "DB.EXAMPLE.ORG"):
        assert (
            check_url_password("", match(ADDRESS, f"shopkeeper:{made(12)}@{host}")) is Action.WARN
        )
    for host in ("203.0.114.7", "example.corp.net", "latest", "example-shop.com"):
        assert (
            check_url_password("", match(ADDRESS, f"shopkeeper:{made(12)}@{host}")) is Action.BLOCK
        )


PARSER: Any = import_module("re._parser")


@pytest.mark.parametrize("wanted", FORMATS, ids=lambda wanted: wanted.anchor)
def test_no_form_is_wider_than_declared(wanted: SecretFormat) -> None:
    parsed = PARSER.parse(wanted.pattern.pattern)

    assert parsed.getwidth()[1] <= wanted.width


@pytest.mark.parametrize("wanted", FORMATS, ids=lambda wanted: wanted.anchor)
def test_the_text_before_an_anchor_is_within_reach(wanted: SecretFormat) -> None:
    lead = wanted.lead.pattern if wanted.lead else ""

    assert PARSER.parse(lead).getwidth()[1] <= 26
    assert len(wanted.anchor) <= MAX_ANCHOR_LENGTH


def test_every_kind_generated_for_tests_is_a_format() -> None:
    kinds = {wanted.kind for wanted in FORMATS}

    assert set(MADE) - {"private key"} <= kinds


FORMATTED = [kind for kind in MADE if kind != "private key"]


def found(text: str) -> list[Finding]:
    config = OutputConfig(loose_secrets=False, personal=None)
    return [finding for finding in check(OutputText(text), config) if finding.evidence.get("kind")]


@pytest.mark.parametrize("kind", FORMATTED)
def test_each_format_is_found_in_a_sentence_and_blocked(kind: str) -> None:
    text = f"Use this one: {MADE[kind]} and tell nobody."
    [finding] = found(text)

    assert (finding.code, finding.action) == ("SECRET_LEAK", Action.BLOCK)
    assert finding.evidence["kind"] == kind
    assert finding.span is not None
    assert text[finding.span.start : finding.span.end] in MADE[kind]


@pytest.mark.parametrize("kind", FORMATTED)
def test_the_detail_never_tells_more_than_four_characters(kind: str) -> None:
    [finding] = found(MADE[kind])
    span = finding.span
    assert span is not None
    drawn_part = MADE[kind][span.start : span.end][-12:]

    assert len(finding.detail) <= 120
    assert not any(
        drawn_part[at : at + 3] in f"{finding.detail}{dict(finding.evidence)}" for at in range(10)
    )


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "AKIA" + "X" * 16,
        "sk_live_your_key_goes_here_please",
        "ghp_" + "x" * 36,
        "AIza" + "0" * 35,
        "glpat-xxxxxxxxxxxxxxxxxxxx",
        "postgres://user:password@localhost:5432/app",
        "postgres://postgres:postgres@localhost/app",
        "mysql://root:root@db/app",
        "https://example.com:8443/path@2x.png",
        "redis://:<your-password>@cache:6379/0",
        "mongodb://admin:${MONGO_PASSWORD}@mongo/app",
        "an eyJhb prefix and an eyJ.eyJ.x shape",
    ],
)
def test_examples_and_placeholders_pass(text: str) -> None:
    assert found(text) == []


def test_a_token_whose_checksum_fails_is_only_recorded() -> None:
    token = github_token()
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
    [finding] = found(wrong)

    assert finding.action is Action.WARN


def test_a_longer_token_of_the_same_prefix_has_no_checksum_to_fail() -> None:
    [finding] = found("ghs_" + drawn(90))

    assert finding.action is Action.BLOCK


def test_a_key_of_a_test_environment_is_only_recorded() -> None:
    [finding] = found("sk_test_" + drawn(24))

    assert finding.action is Action.WARN


def test_a_password_for_the_own_machine_is_only_recorded() -> None:
    [finding] = found(f"postgres://app:{drawn(14)}@localhost/app")

    assert finding.action is Action.WARN


def test_only_the_password_of_an_address_is_marked() -> None:
    password = drawn(14)
    text = f"postgres://app:{password}@db.internal/app"
    [finding] = found(text)

    assert finding.span is not None
    assert text[finding.span.start : finding.span.end] == password


def test_the_standards_own_example_of_a_web_token_passes() -> None:
    assert found(web_token(sub="1234567890", name="John Doe")) == []


@pytest.mark.parametrize("header", [b'{"typ": "x"}', b'["alg", "HS256", 1]', b'{"alg": \xff\xff'])
def test_a_text_that_does_not_decode_to_a_header_is_not_a_web_token(header: bytes) -> None:
    part = base64.urlsafe_b64encode(header).decode().rstrip("=")
    payload = web_token().split(".")[1]
    forged = f"eyJ{part[3:]}.{payload}.{drawn(43)}"

    assert found(forged) == []


def test_a_token_inside_a_longer_word_is_none() -> None:
    assert found(f"x{github_token()}") == []
    assert found(f"{github_token('npm_')}zzz") == []


def test_two_secrets_in_one_text_are_both_found_in_order() -> None:
    text = f"{github_token(seed='1')} {MADE['sendgrid key']} {github_token(seed='2')}"
    kinds = [finding.evidence["kind"] for finding in found(text)]

    assert kinds == ["github token", "sendgrid key", "github token"]


def test_a_token_that_may_go_on_is_not_decided_yet() -> None:
    token = github_token()
    seen, undecided = FORMATTED_SECRETS.search(f"see {token}", 0, False)

    assert (seen, undecided) == ((), 4)
    seen, _ = FORMATTED_SECRETS.search(f"see {token} now, and go on with the rest of it", 0, False)
    assert [each.start for each in seen] == [4]


def test_the_checksum_is_padded_with_zeros() -> None:
    assert len(base62_crc32("")) == 6
    assert base62_crc32("") == "000000"


def found_private_keys(text: str) -> list[Finding]:
    return list(check(OutputText(text), OutputConfig(loose_secrets=False, personal=None)))


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_the_whole_key_is_marked(kind: str) -> None:
    key = private_key(kind)
    [finding] = found_private_keys(f"Here:\n{key}\nDone.")

    assert finding.span is not None
    assert (finding.span.start, finding.span.end) == (6, 6 + len(key))


def test_a_key_with_armour_headers_or_escaped_lines_is_found() -> None:
    key = private_key().replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\n\n", 1)

    assert len(found_private_keys(key)) == 1
    assert len(found_private_keys(private_key("").replace("\n", "\\n"))) == 1


def test_a_key_that_breaks_off_is_found_up_to_where_it_does() -> None:
    cut = private_key()[:400]
    [finding] = found_private_keys(f"{cut}\n*and so on*")

    assert finding.span is not None
    assert finding.span.end >= len(cut)


def test_armour_at_the_end_counts_as_a_key() -> None:
    assert len(found_private_keys("-----BEGIN EC PRIVATE KEY-----\n")) == 1
    assert len(found_private_keys(f"-----BEGIN EC PRIVATE KEY-----\n{drawn(60)}")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PUBLIC KEY-----\nMIIB",
        "-----BEGIN CERTIFICATE-----\n" + drawn(64),
        'if "-----BEGIN RSA PRIVATE KEY-----" in text: reject()',
        "A key starts with -----BEGIN PRIVATE KEY----- and ends with another line.",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{drawn(30)}...\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nshort",
        "-----BEGIN PRIVATE KEY-----\nVersion: 1\nno key here",
    ],
)
def test_a_text_that_only_mentions_keys_passes(text: str) -> None:
    assert found_private_keys(text) == []


@pytest.mark.parametrize("size", [20, 90, 120, 400])
def test_a_key_that_may_go_on_is_not_decided_yet(size: int) -> None:
    text = f"x {private_key()[:size]}"

    assert PRIVATE_KEYS.search(text, 0, False) == ((), 2)


def test_a_key_without_an_end_is_cut_at_a_bound() -> None:
    head = "-----BEGIN PRIVATE KEY-----"
    seen, undecided = PRIVATE_KEYS.search(head + drawn(9000), 0, False)

    assert [(each.start, each.end) for each in seen] == [(0, len(head) + 8192)]
    assert undecided == len(head) + 9000 - len("-----BEGIN ")

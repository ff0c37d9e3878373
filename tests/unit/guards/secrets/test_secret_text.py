import base64

import pytest
from made_secrets import MADE, drawn, github_token, web_token

from demur.guards.output.guard import OutputConfig, OutputText, check
from demur.guards.secrets.checksums import base62_crc32
from demur.guards.secrets.secret_text import FORMATTED_SECRETS
from demur.model.finding import Action, Finding

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
def test_what_does_not_decode_to_a_header_is_no_web_token(header: bytes) -> None:
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

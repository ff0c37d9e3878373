import json
from typing import Any

import pytest
from support.fake_secrets import MADE, github_token
from support.gates import finding, grant, opened, refund, rows, stored

from demur.audit.diff import Unreplayable
from demur.audit.replay import replay_pack
from demur.audit.report import export_pack
from demur.codes.vocabulary import Verdict
from demur.errors import InputError
from demur.gate import redaction
from demur.gate.redaction import (
    DEFAULT_PROFILE,
    NO_REDACTION,
    PROFILES,
    REMOVED,
    STRICT_PROFILE,
    RedactionProfile,
    blot_secrets,
    check_profile,
    find_profile,
    find_secret_texts,
    is_secret_name,
    redact_request,
    scrub_texts,
)

SECRET = "hunter22"


def kept(request: dict[str, Any], profile: RedactionProfile = DEFAULT_PROFILE) -> str:
    with opened(redaction=profile) as gate:
        record = gate.decide(request)
        [row] = rows(gate)
    assert row == record
    assert record.sealed is not None
    return record.sealed.decode() + record.open_bytes().decode() + json.dumps(dict(record))


# Profiles


def test_there_are_three_profiles_and_no_others() -> None:
    assert set(PROFILES) == {"off", "default", "strict"}
    assert find_profile("strict") is STRICT_PROFILE
    with pytest.raises(InputError, match="unknown redaction profile `none`") as caught:
        find_profile("none")
    assert caught.value.help == "one of off, default, strict"


def test_more_paths_join_those_of_the_profile() -> None:
    assert find_profile("default", ["evidence.x"]).paths == ("evidence.x",)
    assert find_profile("strict", ["trace"]).paths == (*STRICT_PROFILE.paths, "trace")


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_every_profile_can_be_kept(profile: RedactionProfile) -> None:
    assert check_profile(profile) is profile


@pytest.mark.parametrize(
    ("path", "help_text"),
    [
        ("evidnce.ssn", "`evidence`"),
        ("nothing", "one of action,"),
        ("", "one of action,"),
        ("action", "a pseudonym"),
        ("action.type", "a pseudonym"),
        ("subject", "a pseudonym"),
        ("subject.id", "a pseudonym"),
        ("tenant", "a pseudonym"),
        ("request_id", "a pseudonym"),
        ("continues", "a pseudonym"),
    ],
)
def test_a_path_that_leads_nowhere_or_cannot_be_missed_is_refused(
    path: str, help_text: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_profile(DEFAULT_PROFILE._replace(paths=(path,)))

    assert caught.value.where == "redaction"
    assert help_text in str(caught.value.help)


def test_off_removes_nothing() -> None:
    request = refund(evidence={"password": SECRET})

    assert redact_request(request, NO_REDACTION).request is request
    assert SECRET in kept(request, NO_REDACTION)


def test_a_request_without_secrets_is_left_as_it_is() -> None:
    request = refund()

    assert redact_request(request, DEFAULT_PROFILE).request is request
    assert redact_request({"action": {"type": "x"}}, STRICT_PROFILE).removed == ()


def test_strict_keeps_neither_evidence_nor_words() -> None:
    request = refund(
        evidence={"ticket_id": "T-77777"},
        context={"inline": "long story", "digest": "sha256:1"},
        extensions={"x": "extra words"},
        subject={"type": "agent", "id": "billing", "ip": "10.1.2.3", "user_agent": "curl/9.9"},
    )
    request["action"]["intent"] = "give it back"
    text = kept(request, STRICT_PROFILE)

    for gone in ("T-77777", "long story", "extra words", "10.1.2.3", "curl/9.9", "give it back"):
        assert gone not in text
    assert redact_request(request, STRICT_PROFILE).removed == (
        "action.intent",
        "context.inline",
        "evidence",
        "extensions",
        "subject.ip",
        "subject.user_agent",
    )


# What is removed


@pytest.mark.parametrize(
    "evidence",
    [
        {"password": SECRET},
        {"deep": {"er": {"apiToken": SECRET}}},
        {"list": [{"API_KEY": SECRET}, [[{"secret": SECRET}]]]},
        {"credentials": {"user": SECRET, "more": [SECRET]}},
        {"token": SECRET, "note": f"my token is {SECRET}, keep it"},
        {"token": SECRET, SECRET: {"nested": 1}},
        {"token": SECRET, "deep": {f"key {SECRET}": [f"{SECRET}{SECRET}"]}},
        {SECRET: {"token": SECRET}},
        {"token": SECRET, "tokens": [f"{SECRET}0"], "text": f"{SECRET}0"},
        {"token": 'quote " and \\ and é' + SECRET, "copy": 'quote " and \\ and é' + SECRET},
    ],
)
def test_a_secret_is_nowhere_in_the_record(evidence: dict[str, Any]) -> None:
    text = kept(refund(evidence=evidence))

    assert SECRET not in text
    assert "quote" not in text


def test_a_secret_number_is_removed_wherever_it_is_a_value_of_its_own() -> None:
    text = kept(refund(evidence={"card_number": 4111222233334444, "copy": 4111222233334444}))

    assert "4111222233334444" not in text


def test_everything_that_is_missing_from_the_record_is_named_by_path() -> None:
    request = refund(
        evidence={"cards": [{"pin": 12345}], "tier": "gold", "token": "gold", "n": ["gold", 1]},
        trace={"note": "gold and silver"},
    )
    redacted = redact_request(request, DEFAULT_PROFILE)

    assert redacted.removed == (
        "evidence.cards.0.pin",
        "evidence.n.0",
        "evidence.tier",
        "evidence.token",
        "trace.note",
    )
    assert redacted.request["evidence"] == {
        "cards": [{}],
        "tier": "[removed]",
        "n": ["[removed]", 1],
    }


def test_facts_that_were_compared_and_removed_are_not_on_record_elsewhere() -> None:
    with opened() as gate:
        record = gate.decide(refund(evidence={"ticket_id": SECRET, "token": SECRET}))

    assert record["facts"] == {"amount_usd": 20}
    assert record["redaction"]["removed"] == ["evidence.ticket_id", "evidence.token"]
    assert record.verdict == "ALLOW"


@pytest.mark.parametrize(
    ("paths", "gone"),
    [
        (["evidence.customer"], ["evidence.customer"]),
        (["evidence.customer.email"], ["evidence.customer.email"]),
        (["evidence.rows.email"], ["evidence.rows.0.email", "evidence.rows.1.email"]),
        (["evidence.rows.1.email"], ["evidence.rows.1.email"]),
        (["evidence.rows.1"], ["evidence.rows.1"]),
        (["action.amount"], ["action.amount"]),
        (["trace.nothing"], []),
    ],
)
def test_paths_name_what_else_to_remove(paths: list[str], gone: list[str]) -> None:
    request = refund(
        evidence={
            "customer": {"email": "a@example.org", "age": 50},
            "rows": [{"email": "b@example.org"}, {"email": "c@example.org"}],
        }
    )

    assert list(redact_request(request, find_profile("default", paths)).removed) == gone


def test_an_item_that_is_removed_from_a_list_moves_no_other() -> None:
    redacted = redact_request(
        refund(evidence={"n": ["a", "b", "c"]}), find_profile("off", ["evidence.n.1"])
    )

    assert redacted.request["evidence"] == {"n": ["a", "[removed]", "c"]}


def test_an_amount_that_is_removed_is_in_no_column() -> None:
    with opened(redaction=find_profile("default", ["action.amount"])) as gate:
        record = gate.decide(refund(123456))

    assert record.amount is None
    assert record["facts"] == {"evidence.ticket_id": "T-1"}
    assert "123456" not in json.dumps(dict(record))


# What a caller cannot hide


@pytest.mark.parametrize(
    "word", ["refund", "action", "type", "billing", "agent", "5000", "subject"]
)
def test_a_caller_cannot_hide_the_requester_or_the_action_as_a_secret(word: str) -> None:
    with opened() as gate:
        record = gate.decide(refund(5000, evidence={"ticket_id": "T-1", "token": word}))

    assert record.action_type == record["request"]["action"]["type"] == "refund"
    assert record["request"]["action"]["amount"] == {"value": 5000, "currency": "USD"}
    assert record["request"]["subject"] == {"type": "agent", "id": "billing"}
    assert record["amount"] == {"value": 5000, "currency": "USD"}
    assert record["facts"]["amount_usd"] == 5000


def test_short_texts_and_words_that_say_nothing_are_not_searched_for() -> None:
    request = refund(evidence={"pin": "123", "secret": True, "token": "moved", "cvv": None})
    redacted = redact_request(
        {**request, "trace": {"note": "123 True moved None"}}, DEFAULT_PROFILE
    )

    assert redacted.texts == frozenset()
    assert redacted.request["trace"] == {"note": "123 True moved None"}


def test_a_request_that_is_mostly_secrets_keeps_little_more_than_its_name() -> None:
    secrets = [f"secret-{number}" for number in range(300)]
    request = refund(
        request_id="r1",
        evidence={"tokens": secrets, "note": secrets[7]},
        trace={"note": secrets[8]},
        tenant={"id": "default"},
        context=None,
    )
    request["action"]["note"] = secrets[9]
    with opened() as gate:
        record = gate.decide(request)

    assert "secret-" not in json.dumps(dict(record))
    assert record["request"] == {
        "action": {"type": "refund", "amount": {"value": 20, "currency": "USD"}},
        "subject": {"type": "agent", "id": "billing"},
        "tenant": {"id": "default"},
        "request_id": "r1",
    }
    assert record["redaction"]["removed"] == ["action", "evidence", "trace"]
    assert record["facts"] == {}


# Scrubbing


@pytest.mark.parametrize(
    ("value", "clean"),
    [
        ("say abcd", "say [removed]"),
        ("abcdabcd", "[removed][removed]"),
        (["abcd", ("abcd", 5)], ["[removed]", ["[removed]", 5]]),
        ({"abcd": {"x": "abcd"}}, {"[removed]": {"x": "[removed]"}}),
        (12345, "[removed]"),
        (123456, 123456),
        (True, True),
        (None, None),
        ("abcde", "[removed]"),
    ],
)
def test_scrubbing_replaces_a_text_wherever_it_occurs(value: object, clean: object) -> None:
    assert scrub_texts(value, frozenset(["abcd", "abcde", "12345", "True"])) == clean


def test_scrubbing_for_nothing_changes_nothing() -> None:
    value = {"a": ["b"]}

    assert scrub_texts(value, frozenset()) is value


def test_a_request_of_nothing_but_secrets_does_not_make_a_record_of_their_names() -> None:
    flood = {"k" * 20_000: {f"pin{number}": 0 for number in range(2_000)}}
    redacted = redact_request(refund(evidence=flood), DEFAULT_PROFILE)

    assert redacted.removed == ("evidence",)
    assert "evidence" not in redacted.request


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


def test_the_cache_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, bool] = {}
    monkeypatch.setattr(redaction, "_known_names", known)
    monkeypatch.setattr(redaction, "_MAX_NAMES", 2)

    assert is_secret_name("x" * 65 + "_password")
    assert known == {}
    assert [is_secret_name(name) for name in ("a", "token", "pin", "b")] == [
        False,
        True,
        True,
        False,
    ]
    assert known == {"a": False, "token": True}


# Credentials that the guards recognise


@pytest.mark.parametrize("kind", MADE)
def test_a_recognised_credential_is_not_stored(kind: str) -> None:
    request = refund(evidence={"ticket_id": "T-1", "note": f"please use {MADE[kind]} for it"})
    secrets = find_secret_texts(request)
    text = kept(request)

    assert secrets
    assert all(json.dumps(secret)[1:-1] not in text for secret in secrets)
    assert REMOVED in text
    assert '"removed": ["evidence.note"]' in text


def test_a_recognised_credential_is_blotted_wherever_it_comes_in() -> None:
    token = github_token()
    request = refund(400, evidence={"ticket_id": "T-1", "command": ["curl", f"-Hauth:{token}"]})
    seen = [finding("SECRET_LEAK", detail=f"saw {token}", evidence={"quote": [token]})]
    with opened() as gate:
        record = gate.decide(
            request, findings=seen, accepted=[f"use {token}"], signals={"note": token}
        )
        beside = gate.decide(refund(), findings=seen)

    for one in (record, beside):
        assert one.sealed is not None
        assert token.encode() not in one.sealed + one.open_bytes()
    assert record.redaction is not None
    assert record.redaction.removed == ("accepted", "evidence.command.1", "signals.note")


@pytest.mark.parametrize("text", ["xoxb-", "AccountKey=", "password=", "-----BEGIN ", "http://x "])
def test_a_text_that_takes_too_long_to_search_is_not_stored(text: str) -> None:
    request = refund(evidence={"ticket_id": "T-1", "note": text * 40_000}, subject={"id": "ada"})
    redacted = redact_request(request, DEFAULT_PROFILE)

    assert "evidence" in redacted.removed
    assert set(redacted.request) <= {"action", "subject", "schema_version"}
    assert blot_secrets(request) == REMOVED


def test_redaction_that_is_off_stores_all() -> None:
    token = github_token()

    assert token in kept(refund(evidence={"note": token}), NO_REDACTION)


def test_a_comparison_with_a_blotted_field_is_not_replayable() -> None:
    token = github_token()
    with opened() as gate:
        same = gate.decide(refund(evidence={"ticket_id": "T-1", "note": token}))
        compared = gate.decide(refund(evidence={"ticket_id": token}))
        packs = [export_pack(stored(gate), one) for one in (same, compared)]

    assert replay_pack(packs[0]).same
    with pytest.raises(Unreplayable, match="nothing is guessed") as caught:
        replay_pack(packs[1])
    assert caught.value.where == "evidence.ticket_id"


def test_no_digest_lets_a_removed_text_be_guessed() -> None:
    request = refund(400, evidence={"ticket_id": "T-1", "pin": "4711"})
    with opened() as gate:
        first = gate.decide(request)
        second = gate.decide(request)
        lifted = gate.decide(request, grants=[grant(first["scope"])])
        other = gate.decide(
            refund(400, evidence={"ticket_id": "T-1", "pin": "4712"}),
            grants=[grant(first["scope"])],
        )
        plain = gate.decide(refund(400))

    assert first["scope"]["request"].startswith("salted-sha256:")
    assert first["scope"]["request"] != second["scope"]["request"]
    assert plain["scope"]["request"].startswith("sha256:")
    assert lifted.verdict is Verdict.ALLOW
    assert lifted["scope"] == first["scope"]
    assert other.verdict is Verdict.ESCALATE


def test_values_of_any_form_are_blotted() -> None:
    token = github_token()
    value = {
        "password": ["hunter22"],
        "list": [{"apiKey": 5}, f"a {token} b", 7],
        "same": "hunter22",
    }

    assert blot_secrets(value) == {
        "password": REMOVED,
        "list": [{"apiKey": REMOVED}, f"a {REMOVED} b", 7],
        "same": REMOVED,
    }
    assert blot_secrets(token) == REMOVED
    assert blot_secrets(["db_password=Xk29fLqPz81mW", 1]) == [f"db_password={REMOVED}", 1]
    assert blot_secrets({"connection_string": "Xk29fLqPz81mWq4T"})["connection_string"] == REMOVED
    many = " ".join(github_token(seed=str(number)) for number in range(300))
    assert blot_secrets({"text": many}) == REMOVED
    harmless = {"command": "git status", "order": "ord_1234567890abcdef", "token_count": 7}
    assert blot_secrets(harmless) is harmless
    assert blot_secrets(None) is None

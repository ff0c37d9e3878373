from typing import Any

import msgspec
import pytest

from demur.errors import InputError
from demur.guards.compaction.message import ContextMessage
from demur.guards.compaction.pinning import PinManifest, is_sealed_by, pin_messages, make_pins

KEY = bytes(range(32))
MESSAGES = (
    ContextMessage(role="system", content="Never delete files."),
    ContextMessage(role="user", content="Hello."),
    ContextMessage(role="developer", content="Answer in French."),
)


def test_those_who_rule_are_pinned_in_their_order() -> None:
    manifest = pin_messages(MESSAGES, KEY, context="c-1")

    assert [(p.role, p.order) for p in manifest.pins] == [("system", 0), ("developer", 1)]
    assert is_sealed_by(manifest, KEY)


def test_the_text_of_a_message_is_not_kept() -> None:
    assert b"delete" not in pin_messages(MESSAGES, KEY).to_json()


def test_rules_are_pinned_with_their_text() -> None:
    [*_, rule] = pin_messages(MESSAGES, KEY, rules=["  Ask \n first."]).pins

    assert (rule.role, rule.order, rule.text) == ("system", 2, "Ask first.")


def test_other_roles_can_be_pinned() -> None:
    [only] = make_pins(MESSAGES, roles=("user",))

    assert only.role == "user"


def test_a_manifest_reads_back_as_it_was_written() -> None:
    manifest = pin_messages(MESSAGES, KEY, rules=["Ask first."])

    assert PinManifest.from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize("text", ["", "{}", b"\xff", '{"pins": 1}', "[" * 10_000])
def test_what_is_no_manifest_is_an_error(text: str | bytes) -> None:
    with pytest.raises(InputError):
        PinManifest.from_json(text)


def test_another_key_does_not_verify() -> None:
    assert not is_sealed_by(pin_messages(MESSAGES, KEY), KEY[::-1])


@pytest.mark.parametrize(
    "change", [{"pins": ()}, {"context": "c-2"}, {"seal": ""}, {"seal": "\ud800ä"}]
)
def test_a_changed_manifest_does_not_verify(change: dict[str, Any]) -> None:
    changed = msgspec.structs.replace(pin_messages(MESSAGES, KEY), **change)

    assert not is_sealed_by(changed, KEY)


@pytest.mark.parametrize(
    ("messages", "key", "more"),
    [
        ((), KEY, {}),
        (MESSAGES, b"short", {}),
        (MESSAGES, "a" * 32, {}),
        (MESSAGES, KEY, {"rules": [" "]}),
    ],
)
def test_what_cannot_be_pinned_is_an_error(messages: Any, key: Any, more: Any) -> None:
    with pytest.raises((InputError, TypeError)):
        pin_messages(messages, key, **more)

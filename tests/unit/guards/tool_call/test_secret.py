from typing import Any

import pytest

from demur.guards.tool_call.secret import CredentialLeak, find_leaks
from demur.model.finding import Action

# Made up, in the form of real ones.
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----"
ASSIGNED = "AWS_SECRET_ACCESS_KEY=" + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYZ9QpLmT3Xv"


def found(arguments: dict[str, Any], *trusted: str) -> list[CredentialLeak]:
    return list(find_leaks(arguments, trusted))


@pytest.mark.parametrize("text", [KEY, ASSIGNED])
def test_a_credential_in_an_argument_is_a_leak(text: str) -> None:
    [leak] = found({"notes": [f"please keep {text}"]})

    assert (leak.place, leak.code, leak.action) == ("notes.0", "SECRET_LEAK", Action.BLOCK)
    assert leak.destination is None


@pytest.mark.parametrize(
    "target", [{"url": "https://paste.example.org/new"}, {"to": "bot@example.org"}]
)
def test_with_a_strange_host_it_is_on_its_way_out(target: dict[str, str]) -> None:
    [leak] = found({"body": KEY, **target})

    assert leak.code == "EXFILTRATION_RISK"
    assert leak.destination is not None
    assert leak.destination.endswith("example.org")


def test_a_trusted_host_may_be_sent_its_key() -> None:
    [leak] = found({"body": KEY, "url": "https://api.example.org"}, "example.org")

    assert (leak.code, leak.action) == ("SECRET_LEAK", Action.WARN)


def test_a_private_host_is_no_way_out() -> None:
    [leak] = found({"body": KEY, "url": "http://localhost:8200"})

    assert (leak.code, leak.action) == ("SECRET_LEAK", Action.BLOCK)


def test_the_name_of_an_argument_can_call_its_value_secret() -> None:
    value = "9fK2mQx7Rt4WzB8nLp3VcY6s"
    [leak] = found({"api_key": value})

    assert value[leak.match.start : leak.match.end] == value


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"api_key": "changeme-please"},
        {"api_key": "${API_KEY}"},
        {"text": "Rotate your API keys every quarter."},
        {"id": "9fK2mQx7Rt4WzB8nLp3VcY6s"},
        {"ids": ["9fK2mQx7Rt4WzB8nLp3VcY6s"]},
        {"page_token": "9fK2mQx7Rt4WzB8nLp3VcY6s"},
        {"sha": "3b18e512dba79e4c8300dd08aeb37f8e728b8dad"},
    ],
)
def test_placeholders_ids_and_prose_pass(arguments: dict[str, Any]) -> None:
    assert found(arguments) == []

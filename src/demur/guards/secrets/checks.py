"""What proves a credential of a known format: a checksum, a header that decodes, no placeholder.

Each check takes the anchor of a format and its match, and says what the credential asks
for, or nothing if it is none.
"""

import base64
import binascii
import json
import re

from demur.guards.secrets.checksums import ends_in_crc32
from demur.guards.secrets.entropy import bits_per_character
from demur.guards.secrets.placeholders import is_placeholder
from demur.model.finding import Action

__all__ = [
    "check_checksum",
    "check_random",
    "check_test_key",
    "check_url_password",
    "check_web_token",
]

# A random key has more bits than this: `aaaaaaaabbbbbbbb` is no key.
_MIN_BITS = 2.5
# Example tokens of the standard's own web page all carry this subject.
_EXAMPLE_SUBJECT = "1234567890"
_TEST_HOSTS = re.compile(
    r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\]|(?:[\w-]+\.)*example(?:\.\w+)?"
    # Addresses and names that are set aside for documents.
    r"|192\.0\.2\.\d+|198\.51\.100\.\d+|203\.0\.113\.\d+|\[2001:db8:[0-9a-f:]*\]"
    r"|(?:[\w-]+\.)+(?:test|invalid|localhost))(?![\w-]|\.\w)",
    re.IGNORECASE,
)
_WEAK = frozenset(["admin", "pass", "pwd", "root", "secret", "guest", "user", "test", "postgres"])


def check_random(anchor: str, match: re.Match[str]) -> Action | None:
    """Block a random value, and pass a made-up one."""
    body = match["secret"].removeprefix(anchor)
    if is_placeholder(body) or bits_per_character(body) < _MIN_BITS:
        return None
    return Action.BLOCK


def check_test_key(anchor: str, match: re.Match[str]) -> Action | None:
    """Record a key of a test environment: it opens nothing of value."""
    return check_random(anchor, match) and Action.WARN


def check_checksum(anchor: str, match: re.Match[str]) -> Action | None:
    """Block a token with a valid checksum, and record one with a wrong checksum."""
    secret = match["secret"]
    if len(secret) == len(anchor) + 36:
        return Action.BLOCK if ends_in_crc32(secret) else check_test_key(anchor, match)
    return check_random(anchor, match)


def check_web_token(_anchor: str, match: re.Match[str]) -> Action | None:
    """Block a token whose header names an algorithm, unless it is the standard's own example."""
    header, payload, _ = match["secret"].split(".")
    if "alg" not in _decode_json(header):
        return None
    return None if _decode_json(payload).get("sub") == _EXAMPLE_SUBJECT else Action.BLOCK


def _decode_json(part: str) -> dict[str, object]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def check_url_password(_anchor: str, match: re.Match[str]) -> Action | None:
    """Block a password in a URL, unless the password or the host is one for tests."""
    password = match["secret"]
    if password.lower() in _WEAK or password == match["user"] or is_placeholder(password):
        return None
    return Action.WARN if _TEST_HOSTS.match(match["host"]) else Action.BLOCK

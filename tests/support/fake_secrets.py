"""Secrets made when they are needed, so that none stands in a file. None opens anything."""

import base64
import hashlib
import json
import string
from itertools import count

from demur.guards.secret_values import base62_crc32

__all__ = ["BASE32", "HEX", "LETTERS", "MADE", "drawn", "github_token", "private_key", "web_token"]

LETTERS = string.ascii_letters + string.digits
BASE32 = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"
_URLSAFE = f"{LETTERS}_-"


def drawn(size: int, alphabet: str = LETTERS, seed: str = "") -> str:
    """Return characters that look drawn, always the same for the same arguments."""
    text = ""
    for number in count():
        block = hashlib.sha512(f"{seed}/{number}".encode()).digest()
        text += "".join(alphabet[byte % len(alphabet)] for byte in block)
        if len(text) >= size:
            return text[:size]
    raise AssertionError


def github_token(prefix: str = "ghp_", seed: str = "") -> str:
    """Return a token that carries its issuer's checksum."""
    body = drawn(30, seed=seed)
    return prefix + body + base62_crc32(body)


def web_token(**claims: str) -> str:
    """Return a token of three parts whose header and payload decode."""
    parts = ({"alg": "HS256", "typ": "JWT"}, claims or {"sub": "someone"})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join([*(part.rstrip("=") for part in encoded), drawn(43, _URLSAFE)])


def private_key(kind: str = "RSA ") -> str:
    """Return a key in PEM armour."""
    lines = "\n".join(drawn(64, LETTERS + "+/", seed=str(line)) for line in range(12))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


MADE = {
    "aws access key id": "AKIA" + drawn(16, BASE32),
    "github token": github_token(),
    "npm token": github_token("npm_"),
    "pypi token": "pypi-AgE" + drawn(120, _URLSAFE),
    "gitlab token": "glpat-" + drawn(20, LETTERS),
    "slack token": f"xoxb-{drawn(12, string.digits)}-{drawn(12, string.digits)}-{drawn(24)}",
    "slack webhook": (
        f"https://hooks.slack.com/services/T{drawn(8, BASE32)}/B{drawn(8, BASE32)}/{drawn(24)}"
    ),
    "stripe key": "sk_live_" + drawn(24),
    "stripe webhook secret": "whsec_" + drawn(32),
    "openai key": f"sk-proj-{drawn(40, seed='a')}T3BlbkFJ{drawn(40, seed='b')}",
    "anthropic key": f"sk-ant-api03-{drawn(93, _URLSAFE)}AA",
    "model provider key": "gsk_" + drawn(52),
    "hugging face token": "hf_" + drawn(34, string.ascii_letters),
    "google api key": "AIza" + drawn(35, _URLSAFE),
    "google access token": "ya29." + drawn(120, _URLSAFE),
    "google client secret": "GOCSPX-" + drawn(28),
    "azure storage key": f"AccountKey={drawn(86)}==",
    "azure access key": f"SharedAccessKey={drawn(43)}=",
    "azure client secret": f"{drawn(3)}8Q~{drawn(34)}",
    "twilio key": "SK" + drawn(32, HEX),
    "sendgrid key": f"SG.{drawn(22)}.{drawn(43)}",
    "mailgun key": "key-" + drawn(32, HEX),
    "telegram bot token": f"{drawn(9, '123456789')}:AA{drawn(33)}",
    "digitalocean token": "dop_v1_" + drawn(64, HEX),
    "databricks token": "dapi" + drawn(32, HEX),
    "terraform token": f"{drawn(14)}.atlasv1.{drawn(64)}",
    "json web token": web_token(),
    "password in an address": f"postgres://app:{drawn(14)}@db.internal:5432/orders",
    "private key": private_key(),
}

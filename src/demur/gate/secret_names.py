"""Keys of a request that name a secret, whatever their value."""

import re

__all__ = ["is_secret_name"]

# Matched against the last words of a key: `api_token` matches, `token_count` does not.
# A number or a plural at the end is ignored.
_SECRET_KEYS = (
    "access_key",
    "api_key",
    "authorization",
    "card_number",
    "cookie",
    "credential",
    "credit_card",
    "cvc",
    "cvv",
    "encryption_key",
    "iban",
    "jwt",
    "otp",
    "passphrase",
    "passwd",
    "password",
    "pin",
    "private_key",
    "pwd",
    "secret",
    "secret_key",
    "signing_key",
    "ssn",
    "token",
)
# Matched at the end of a key, also where its words run together: `mypassword`.
_SECRET_ENDINGS = (
    "accesskey",
    "apikey",
    "cardnumber",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "secretkey",
    "token",
)
_ENDS = tuple(f"_{words}" for words in _SECRET_KEYS)
_known_names: dict[str, bool] = {}
_MAX_NAMES = 4096
_MAX_SECRET_NAME_LENGTH = 64
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")


def is_secret_name(key: str) -> bool:
    """Return whether a key names a secret, which is never stored."""
    known = _known_names.get(key)
    if known is None:
        words = "_".join(_WORDS.findall(key)).lower().rstrip("_0123456789")
        known = any(
            f"_{name}".endswith(_ENDS) or name.replace("_", "").endswith(_SECRET_ENDINGS)
            for name in {words, words.removesuffix("s")}
        )
        if len(_known_names) < _MAX_NAMES and len(key) <= _MAX_SECRET_NAME_LENGTH:
            _known_names[key] = known
    return known

"""Whether a value only stands in for a secret: `changeme`, `<your-key>`, `${TOKEN}`, `xxxx`."""

import re

__all__ = ["is_placeholder"]

_PLACEHOLDER_WORDS = re.compile(
    r"example|sample|placeholder|change[ _-]?me|change[ _-]?this|your|insert|replace|redact|dummy"
    r"|fake|todo|foobar|demo|mock|lorem|goes[ _-]?here|[_-]here|super[ _-]?secret|my[ _-]?secret"
    r"|my[ _-]?(?:api|token|key|pass)|pass[ _-]?w[o0]rd|passwort|letmein|qwerty|hunter2|s3cr3t"
    r"|(?:^|[^a-z])(?:secret|test|none|null|undefined|true|false|value|string|token|key)(?:[^a-z]|$)"
    r"|12345|abcdef|98765|deadbeef",
    re.IGNORECASE,
)
# Brackets and variables refer to a value elsewhere; runs of one character mask it.
_STANDS_FOR = re.compile(r"[<>{}]|\$[A-Za-z_({]|%[A-Za-z_(]|\[[A-Z_ ]+\]|(.)\1{3}|\.\.\.|…")


def is_placeholder(value: str) -> bool:
    """Return whether `value` stands in for a secret rather than being one."""
    return bool(_STANDS_FOR.search(value) or _PLACEHOLDER_WORDS.search(value))

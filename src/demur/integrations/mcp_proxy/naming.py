"""Names: of a server that nobody gave one, and of a session where it is on record."""

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from urllib.parse import urlsplit

__all__ = ["server_name", "session_run_name"]

# Programs that run a server but are none.
_RUNNERS = re.compile(
    r"(?:python|pypy|node|npx|bunx?|deno|uvx?|pipx|pnpm|yarn|docker|podman|env|sh|bash)[\d.]*"
)
_VERBS = frozenset({"run", "exec", "dlx", "tool", "x"})
_MAX_NAME_LENGTH = 100
_RUN_DIGITS = 12
_NAME_SEPARATORS = re.compile(r"[^\w.@-]+")


def server_name(command: Sequence[str], url: str | None = None) -> str:
    """Return a name for a server: its host, or the program or script that a command starts.

    Its other arguments are left out: they may hold secrets.
    """
    if url is not None:
        return _sanitize_name(urlsplit(url).hostname or "server")
    names = [_base_name(word) for word in command if word and not word.startswith("-")]
    chosen = next((n for n in names if not _RUNNERS.fullmatch(n) and n not in _VERBS), None)
    return _sanitize_name(chosen or (names[0] if names else "server"))


def session_run_name(identity: str) -> str:
    """Return the name of a session in records; readers cannot take over the session with it."""
    return sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:_RUN_DIGITS]


def _base_name(word: str) -> str:
    return re.sub(r"\.(?:py|js|mjs|cjs|ts|exe|sh)$", "", PurePosixPath(word).name)


def _sanitize_name(name: str) -> str:
    return _NAME_SEPARATORS.sub("-", name)[:_MAX_NAME_LENGTH] or "server"

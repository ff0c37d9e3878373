"""Private data that leaves: what is read from keys, logins and settings, and what is sent."""

import ast
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from demur.guards.skill.bundle import SkillConfig
from demur.guards.skill.calls import READERS, SENDERS, is_network
from demur.guards.skill.flow import Origin
from demur.guards.skill.python_source import PythonSource
from demur.guards.skill.sighting import Sighting

__all__ = ["drop_hosts", "see_secrets"]

_LOGINS = frozenset({"auth", "cert", "headers", "verify", "proxies", "timeout"})
_CONTENT = Origin.SECRET | Origin.ENVIRONMENT
_OPENERS = frozenset({"open", "read_bytes", "read_text"})
# Hosts where anyone can create an address and read what is sent to it.
_DROPS = re.compile(
    r"https?://(?:[\w-]+\.)*(?:webhook\.site|requestbin\.\w+|pipedream\.net|ngrok(?:-free)?\.\w+"
    r"|ngrok\.io|burpcollaborator\.net|oastify\.com|interact\.sh|oast\.\w+|beeceptor\.com"
    r"|transfer\.sh|pastebin\.com/raw|hastebin\.com|termbin\.com|trycloudflare\.com"
    r"|discord(?:app)?\.com/api/webhooks|api\.telegram\.org/bot)[^\s'\"`<>)\]]*",
    re.IGNORECASE,
)


def drop_hosts(text: str, config: SkillConfig) -> Iterator[Sighting]:
    """Yield addresses at which anyone can collect data."""
    for found in _DROPS.finditer(text):
        host = urlsplit(found[0]).hostname or ""
        if not config.allows_host(host):
            detail = f"names `{host}`, where anyone can collect data"
            yield Sighting("HOST_DROP", *found.span(), detail, {"destination": host})


def see_secrets(source: PythonSource) -> Iterator[Sighting]:
    """Yield calls that send private data, and reads of it in files that could send it."""
    sent = list(_sent(source))
    yield from sent
    if sent or not any(is_network(path) for _, path in source.calls):
        return
    for call, path in source.calls:
        opener = isinstance(call.func, ast.Attribute) and call.func.attr in _OPENERS
        if (path in READERS or opener) and Origin.SECRET in source.flow.of(call):
            yield source.see("PY_SECRET_READ", call, f"reads secrets: `{source.quote(call)}`")
            return


def _sent(source: PythonSource) -> Iterator[Sighting]:
    for call, path in source.calls:
        if not _sends(source, call, path):
            continue
        content = _union(source, _content(call))
        host = _destination(source, call)
        if content & _CONTENT and not (host and source.config.allows_host(host)):
            kind = "environment" if Origin.ENVIRONMENT in content else "stored secrets"
            detail = f"sends {kind} by `{source.quote(call)}`"
            yield source.see("PY_SECRET_SENT", call, detail, data=kind, destination=host or "")
        elif Origin.TOKEN in content and not (host and source.config.allows_host(host)):
            detail = f"sends a credential as content by `{source.quote(call)}`"
            yield source.see("PY_TOKEN_SENT", call, detail, data="credential")


def _sends(source: PythonSource, call: ast.Call, path: str | None) -> bool:
    if path is not None and is_network(path):
        return path.rpartition(".")[2] in SENDERS
    match call.func:
        case ast.Attribute(attr=name, value=base) if name in SENDERS:
            return Origin.REMOTE in source.flow.of(base)
        case _:
            return False


def _content(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments that are sent as content; headers are for login."""
    yield from call.args
    for keyword in call.keywords:
        if keyword.arg not in _LOGINS:
            yield keyword.value


def _union(source: PythonSource, nodes: Iterator[ast.expr]) -> Origin:
    origin = Origin.PLAIN
    for node in nodes:
        origin |= source.flow.of(node)
    return origin


def _destination(source: PythonSource, call: ast.Call) -> str | None:
    for argument in call.args:
        text = source.names.folder.strings(argument)
        if "://" in text:
            try:
                return urlsplit(text[text.index("http") :]).hostname if "http" in text else None
            except ValueError:
                return None
    return None

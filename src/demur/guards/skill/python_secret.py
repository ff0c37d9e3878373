"""Private data that leaves: what is read from keys, logins and settings, and what is sent."""

import ast
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from demur.guards.skill.bundle import SkillConfig
from demur.guards.skill.calls import READERS, SENDERS, is_network
from demur.guards.skill.flow import ValueOrigin
from demur.guards.skill.python_source import PythonSource
from demur.guards.skill.sighting import SkillHit

__all__ = ["find_drop_hosts", "find_sent_secrets"]

_LOGINS = frozenset({"auth", "cert", "headers", "verify", "proxies", "timeout"})
_CONTENT = ValueOrigin.SECRET | ValueOrigin.ENVIRONMENT
_OPENERS = frozenset({"open", "read_bytes", "read_text"})
# Hosts where anyone can create an address and read what is sent to it.
_DROPS = re.compile(
    r"https?://(?:[\w-]+\.)*(?:webhook\.site|requestbin\.\w+|pipedream\.net|ngrok(?:-free)?\.\w+"
    r"|ngrok\.io|burpcollaborator\.net|oastify\.com|interact\.sh|oast\.\w+|beeceptor\.com"
    r"|transfer\.sh|pastebin\.com/raw|hastebin\.com|termbin\.com|trycloudflare\.com"
    r"|discord(?:app)?\.com/api/webhooks|api\.telegram\.org/bot)[^\s'\"`<>)\]]*",
    re.IGNORECASE,
)


def find_drop_hosts(text: str, config: SkillConfig) -> Iterator[SkillHit]:
    """Yield addresses at which anyone can collect data."""
    for found in _DROPS.finditer(text):
        host = urlsplit(found[0]).hostname or ""
        if not config.allows_host(host):
            detail = f"names `{host}`, where anyone can collect data"
            yield SkillHit("HOST_DROP", *found.span(), detail, {"destination": host})


def find_sent_secrets(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls that send private data, and reads of it in files that could send it."""
    sent = list(_sent_secrets(source))
    yield from sent
    if sent or not any(is_network(path) for _, path in source.calls):
        return
    for call, path in source.calls:
        opener = isinstance(call.func, ast.Attribute) and call.func.attr in _OPENERS
        if (path in READERS or opener) and ValueOrigin.SECRET in source.flow.origin_of(call):
            yield source.make_hit(
                "PY_SECRET_READ", call, f"reads secrets: `{source.quote_source(call)}`"
            )
            return


def _sent_secrets(source: PythonSource) -> Iterator[SkillHit]:
    for call, path in source.calls:
        if not _is_send(source, call, path):
            continue
        content = _join_origins(source, _sent_content(call))
        host = _request_host(source, call)
        if content & _CONTENT and not (host and source.config.allows_host(host)):
            kind = "environment" if ValueOrigin.ENVIRONMENT in content else "stored secrets"
            detail = f"sends {kind} by `{source.quote_source(call)}`"
            yield source.make_hit("PY_SECRET_SENT", call, detail, data=kind, destination=host or "")
        elif ValueOrigin.TOKEN in content and not (host and source.config.allows_host(host)):
            detail = f"sends a credential as content by `{source.quote_source(call)}`"
            yield source.make_hit("PY_TOKEN_SENT", call, detail, data="credential")


def _is_send(source: PythonSource, call: ast.Call, path: str | None) -> bool:
    if path is not None and is_network(path):
        return path.rpartition(".")[2] in SENDERS
    match call.func:
        case ast.Attribute(attr=name, value=base) if name in SENDERS:
            return ValueOrigin.REMOTE in source.flow.origin_of(base)
        case _:
            return False


def _sent_content(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments that are sent as content; headers are for login."""
    yield from call.args
    for keyword in call.keywords:
        if keyword.arg not in _LOGINS:
            yield keyword.value


def _join_origins(source: PythonSource, nodes: Iterator[ast.expr]) -> ValueOrigin:
    origin = ValueOrigin.PLAIN
    for node in nodes:
        origin |= source.flow.origin_of(node)
    return origin


def _request_host(source: PythonSource, call: ast.Call) -> str | None:
    for argument in call.args:
        text = source.names.folder.join_strings(argument)
        if "://" in text:
            try:
                return urlsplit(text[text.index("http") :]).hostname if "http" in text else None
            except ValueError:
                return None
    return None

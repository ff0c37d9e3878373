"""Headers of messages over HTTP: newer versions say there, too, what a message is about.

A server holds headers and message against each other, and some declare arguments that must
stand in headers as well. A client over stdio sends no headers, so the proxy makes them.
"""

import base64
import re
from collections.abc import Iterator
from typing import Any

from demur.integrations.mcp_proxy.message import Message

__all__ = ["PLAIN", "DeclaredHeaders", "own_headers", "own_version"]

PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_DECLARED = "x-mcp-header"
_MOST_TOOLS = 10_000
_ENCODED = "=?base64?"

Path = tuple[str, ...]


def own_version(message: Message) -> str | None:
    """Return the protocol version in a message, as newer clients send it."""
    meta = message.params.get("_meta")
    version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    return version if isinstance(version, str) and PLAIN.fullmatch(version) else None


def own_headers(message: Message) -> dict[str, str]:
    """Return the headers that describe a newer message; none for an older one."""
    if own_version(message) is None:
        return {}
    headers = {"mcp-method": _value(message.method)}
    name = message.params.get(_NAMED.get(message.method, ""))
    if isinstance(name, str):
        headers["mcp-name"] = _value(name)
    return headers


class DeclaredHeaders:
    """The arguments of tools that belong into headers, as their schemas declare."""

    def __init__(self) -> None:
        self._tools: dict[str, dict[Path, str]] = {}

    def learn(self, result: Any) -> None:
        """Read the declarations in a list of tools."""
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            name = tool.get("name") if isinstance(tool, dict) else None
            if isinstance(name, str) and (name in self._tools or len(self._tools) < _MOST_TOOLS):
                self._tools[name] = dict(_declared(tool.get("inputSchema")))

    def of(self, message: Message) -> dict[str, str]:
        """Return the headers for a call's arguments."""
        declared = self._tools.get(str(message.params.get("name")), {})
        arguments = message.params.get("arguments")
        if message.method != "tools/call":
            return {}
        values = {token: _scalar(_at(arguments, path)) for path, token in declared.items()}
        return {f"mcp-param-{token}": text for token, text in values.items() if text is not None}


def _declared(schema: Any) -> Iterator[tuple[Path, str]]:
    """Yield the path of each argument that belongs into a header, and the header's name."""
    stack: list[tuple[Path, Any]] = [((), schema)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, dict):
            continue
        token = node.get(_DECLARED)
        if path and isinstance(token, str) and _TOKEN.fullmatch(token):
            yield path, token
        properties = node.get("properties")
        if isinstance(properties, dict):
            stack += [((*path, name), inner) for name, inner in properties.items()]


def _at(arguments: Any, path: Path) -> Any:
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def _scalar(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return _value(str(value)) if isinstance(value, str | int | float) else None


def _value(text: str) -> str:
    """Return a text as a header value, encoded if necessary."""
    if not text or (PLAIN.fullmatch(text) and not text.startswith(_ENCODED)):
        return text
    return f"{_ENCODED}{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="

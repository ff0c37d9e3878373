"""Headers of messages over HTTP: newer versions say there, too, what a message is about.

A server holds headers and message against each other, and some declare arguments that must
stand in headers as well. A client over stdio sends no headers, so the proxy makes them.
"""

import base64
import re
from collections.abc import Iterator
from typing import Any

from demur.integrations.mcp_proxy.message import RpcMessage

__all__ = ["PLAIN_HEADER", "DeclaredHeaders", "message_headers", "message_version"]

PLAIN_HEADER = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_HEADER_KEYWORD = "x-mcp-header"
_MAX_TOOLS = 10_000
_BASE64_PREFIX = "=?base64?"

ArgumentPath = tuple[str, ...]


def message_version(message: RpcMessage) -> str | None:
    """Return the protocol version in a message, as newer clients send it."""
    meta = message.params.get("_meta")
    version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    return version if isinstance(version, str) and PLAIN_HEADER.fullmatch(version) else None


def message_headers(message: RpcMessage) -> dict[str, str]:
    """Return the headers that describe a newer message; none for an older one."""
    if message_version(message) is None:
        return {}
    headers = {"mcp-method": _header_value(message.method)}
    name = message.params.get(_NAME_PARAMS.get(message.method, ""))
    if isinstance(name, str):
        headers["mcp-name"] = _header_value(name)
    return headers


class DeclaredHeaders:
    """The arguments of tools that belong into headers, as their schemas declare."""

    def __init__(self) -> None:
        self._tools: dict[str, dict[ArgumentPath, str]] = {}

    def learn_tools(self, result: Any) -> None:
        """Read the declarations in a list of tools."""
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            name = tool.get("name") if isinstance(tool, dict) else None
            if isinstance(name, str) and (name in self._tools or len(self._tools) < _MAX_TOOLS):
                self._tools[name] = dict(_find_declared(tool.get("inputSchema")))

    def headers_for(self, message: RpcMessage) -> dict[str, str]:
        """Return the headers for a call's arguments."""
        declared = self._tools.get(str(message.params.get("name")), {})
        arguments = message.params.get("arguments")
        if message.method != "tools/call":
            return {}
        values = {
            token: _scalar_header(_argument_at(arguments, path)) for path, token in declared.items()
        }
        return {f"mcp-param-{token}": text for token, text in values.items() if text is not None}


def _find_declared(schema: Any) -> Iterator[tuple[ArgumentPath, str]]:
    """Yield the path of each argument that belongs into a header, and the header's name."""
    stack: list[tuple[ArgumentPath, Any]] = [((), schema)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, dict):
            continue
        token = node.get(_HEADER_KEYWORD)
        if path and isinstance(token, str) and _TOKEN.fullmatch(token):
            yield path, token
        properties = node.get("properties")
        if isinstance(properties, dict):
            stack += [((*path, name), inner) for name, inner in properties.items()]


def _argument_at(arguments: Any, path: ArgumentPath) -> Any:
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def _scalar_header(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return _header_value(str(value)) if isinstance(value, str | int | float) else None


def _header_value(text: str) -> str:
    """Return a text as a header value, encoded if necessary."""
    if not text or (PLAIN_HEADER.fullmatch(text) and not text.startswith(_BASE64_PREFIX)):
        return text
    return f"{_BASE64_PREFIX}{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="

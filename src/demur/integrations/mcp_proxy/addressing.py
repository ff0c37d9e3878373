"""Names and headers: which host and site a call is for, what a message and a session are called.

A page in a browser can point its own host name at this machine. So the proxy answers only to its
own names, and to no page of another site. Newer protocol versions repeat in headers what a message
is about; a client over stdio sends no headers, so the proxy makes them.
"""

import base64
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from demur.integrations.mcp_proxy.jsonrpc import RpcMessage
from demur.listener import is_ip_address, is_loopback

PLAIN_HEADER = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_HEADER_KEYWORD = "x-mcp-header"
_MAX_TOOLS = 10_000
_BASE64_PREFIX = "=?base64?"
_BASE64_VALUE = re.compile(r"=\?base64\?(.*)\?=")

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

    def knows(self, message: RpcMessage) -> bool:
        """Return whether the tool of a call was listed."""
        return message.params.get("name") in self._tools

    def find_mismatch(self, message: RpcMessage, headers: Mapping[str, str]) -> str | None:
        """Return the first header that differs from its argument, or None."""
        expected = {name.lower(): text for name, text in self.headers_for(message).items()}
        declared = self._tools.get(str(message.params.get("name")), {}).values()
        names = {f"mcp-param-{token.lower()}" for token in declared}
        return next((name for name in names if not _same(headers, name, expected.get(name))), None)


def find_header_mismatch(message: RpcMessage, headers: Mapping[str, str]) -> str | None:
    """Return the header that differs from a newer message, or None."""
    version = message_version(message)
    if version is None:
        return None
    expected = {"mcp-protocol-version": version, **message_headers(message)}
    return next((name for name in expected if not _same(headers, name, expected[name])), None)


def _same(headers: Mapping[str, str], name: str, expected: str | None) -> bool:
    """Return whether a header says what is expected; None expects that it is missing."""
    given = headers.get(name)
    if given is None or expected is None:
        return given is expected
    return _decode_header(given) == _decode_header(expected)


def _decode_header(value: str) -> str | None:
    """Return what a header says; None if it is encoded wrongly."""
    value = value.strip()
    found = _BASE64_VALUE.fullmatch(value)
    if found is None:
        return value
    try:
        data = base64.b64decode(found[1], validate=True)
        return data.decode() if base64.b64encode(data).decode() == found[1] else None
    except ValueError:
        return None


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


# A duplicate of these lets two readers see two different calls.
_SINGLE_HEADERS = frozenset(
    {"host", "origin", "content-type", "content-length", "accept", "sec-fetch-site"}
    | {"mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "authorization"}
    | {"last-event-id"}
)
_HOST_HEADER = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::\d{1,5})?")
_SAME_SITE = frozenset({"same-origin", "none", ""})


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """Return headers by name; None if a security-relevant one is duplicate."""
    read: dict[str, str] = {}
    for key, value in raw:
        name = key.decode("latin-1").lower()
        if name in read and name in _SINGLE_HEADERS:
            return None
        read[name] = value.decode("latin-1")
    return read


def check_place(headers: Mapping[str, str], names: Collection[str]) -> tuple[int, str] | None:
    """Return status and problem of a call to an unknown host or from another site, or None."""
    host = headers.get("host", "").lower()
    found = _HOST_HEADER.fullmatch(host)
    bare = "" if found is None else found[1] or found[2]
    # DNS cannot point an IP address elsewhere.
    if bare not in names and not is_loopback(bare) and not is_ip_address(bare):
        return 421, "this proxy does not answer to that host name"
    origin = headers.get("origin")
    foreign = origin is not None and origin.lower() not in {f"http://{host}", f"https://{host}"}
    if foreign or headers.get("sec-fetch-site", "").lower() not in _SAME_SITE:
        return 403, "cross-site calls are not allowed"
    return None


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

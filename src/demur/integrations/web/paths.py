"""Path patterns that select the requests to check.

An app may take several paths for one place: a trailing line break or slash may not matter to it.
Every path that an app might take for a guarded one is checked, too.
"""

import re
from collections.abc import Iterable, Iterator

from starlette.types import Scope

from demur.errors import InputError, InputTypeError

__all__ = ["Paths"]

_PARAMETER = re.compile(r"\{\w+(?::(?P<kind>\w+))?\}|\*")
# Kinds of parameters that match one segment; others may match several.
_SEGMENTS = (None, "str", "int", "float", "uuid")
_ENDS = re.compile(r"[/\s\x00-\x1f\x7f]+\Z")
_SLASHES = re.compile(r"/+")


class Paths:
    """Paths by patterns: `/chat`, `/v1/*` for all below, `/chats/{id}` as in a route."""

    def __init__(self, patterns: Iterable[str]) -> None:
        if isinstance(patterns, str):
            raise InputTypeError.expected("`paths`", "a list of patterns", patterns)
        read = [_read(form) for one in patterns for form in {one, one.rstrip("/") or "/"}]
        if not read:
            raise InputError("no paths are given, so nothing would be checked", where="paths")
        self._patterns = read

    def hold(self, scope: Scope) -> bool:
        """Return whether a request's path matches a pattern."""
        return any(one.fullmatch(form) for form in _forms(scope) for one in self._patterns)


def _read(pattern: str) -> re.Pattern[str]:
    if not pattern.startswith(("/", "*")):
        raise InputError(f"`{pattern}` is not a path", where="paths", help="begin it with `/`")
    made, end = "", 0
    for found in _PARAMETER.finditer(pattern):
        one_segment = found[0] != "*" and found["kind"] in _SEGMENTS
        made += _literal(pattern[end : found.start()]) + ("[^/]+" if one_segment else ".*")
        end = found.end()
    return re.compile(made + _literal(pattern[end:]), re.DOTALL)


def _literal(text: str) -> str:
    if not set(text).isdisjoint("{}[]?"):
        help_text = "use `*` for anything, `{name}` for one segment"
        raise InputError(f"`{text}` cannot be matched", where="paths", help=help_text)
    return re.escape(text)


def _forms(scope: Scope) -> Iterator[str]:
    """Yield the forms of a request's path that an app may treat as the same."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    for one in {path, _below(path, root)}:
        yield from {one, _SLASHES.sub("/", one), _ENDS.sub("", one) or "/"}
        yield _ENDS.sub("", _SLASHES.sub("/", one)) or "/"


def _below(path: str, root: str) -> str:
    return path[len(root) :] if path == root or path.startswith(f"{root}/") else path

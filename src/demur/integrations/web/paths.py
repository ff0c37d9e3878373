"""Path patterns that select the requests to check.

An app may take several paths for one place: a trailing line break or slash may not matter to it.
Every path that an app might take for a guarded one is checked, too.
"""

import re
from collections.abc import Iterable, Iterator

from starlette.types import Scope

from demur.errors import InputError, InputTypeError

__all__ = ["PathPatterns"]

_PARAMETER = re.compile(r"\{\w+(?::(?P<kind>\w+))?\}|\*")
# Kinds of parameters that match one segment; others may match several.
_SEGMENT_KINDS = (None, "str", "int", "float", "uuid")
_TRAILING_NOISE = re.compile(r"[/\s\x00-\x1f\x7f]+\Z")
_SLASHES = re.compile(r"/+")


class PathPatterns:
    """Paths by patterns: `/chat`, `/v1/*` for all below, `/chats/{id}` as in a route."""

    def __init__(self, patterns: Iterable[str]) -> None:
        if isinstance(patterns, str):
            raise InputTypeError.wrong_type("`paths`", "a list of patterns", patterns)
        read = [
            _compile_pattern(form) for one in patterns for form in {one, one.rstrip("/") or "/"}
        ]
        if not read:
            raise InputError("no paths are given, so nothing would be checked", where="paths")
        self._patterns = read

    def match_request(self, scope: Scope) -> bool:
        """Return whether a request's path matches a pattern."""
        return any(one.fullmatch(form) for form in _path_forms(scope) for one in self._patterns)


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    if not pattern.startswith(("/", "*")):
        raise InputError(f"`{pattern}` is not a path", where="paths", help="begin it with `/`")
    made, end = "", 0
    for found in _PARAMETER.finditer(pattern):
        one_segment = found[0] != "*" and found["kind"] in _SEGMENT_KINDS
        made += _escape_literal(pattern[end : found.start()]) + ("[^/]+" if one_segment else ".*")
        end = found.end()
    return re.compile(made + _escape_literal(pattern[end:]), re.DOTALL)


def _escape_literal(text: str) -> str:
    if not set(text).isdisjoint("{}[]?"):
        help_text = "use `*` for anything, `{name}` for one segment"
        raise InputError(f"`{text}` cannot be matched", where="paths", help=help_text)
    return re.escape(text)


def _path_forms(scope: Scope) -> Iterator[str]:
    """Yield the forms of a request's path that an app may treat as the same."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    for one in {path, _strip_root(path, root)}:
        yield from {one, _SLASHES.sub("/", one), _TRAILING_NOISE.sub("", one) or "/"}
        yield _TRAILING_NOISE.sub("", _SLASHES.sub("/", one)) or "/"


def _strip_root(path: str, root: str) -> str:
    return path[len(root) :] if path == root or path.startswith(f"{root}/") else path

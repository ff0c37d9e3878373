"""File paths that lead out of a workspace, judged by their letters alone.

Nothing is read from a disk: a link inside the workspace that points elsewhere is not seen, so
whoever opens the file must refuse to follow links. `..`, a home folder, a variable, a drive
letter, percent-encoding, a null byte and a `file:` address are all seen.
"""

from collections.abc import Sequence
from posixpath import isabs, join, normpath
from urllib.parse import unquote

import re2

__all__ = ["outside_reason"]

_DRIVE = re2.compile(r"(?i)^[a-z]:")
_VARIABLE = re2.compile(r"^(?:~|\$\{?\w|%\pL\w*%)")
_SCHEME = re2.compile(r"(?i)^file:(?://[^/]*)?")
_URL = re2.compile(r"(?i)^[a-z][a-z0-9+.\-]+://")


def outside_reason(path: str, workspaces: Sequence[str]) -> str | None:
    """Return why `path` is not inside one of `workspaces`, or None if it is.

    The first workspace is where a relative path starts.
    """
    text = path.encode("utf-8", "replace").decode()
    if "\0" in text or "%00" in text:
        return "it holds a null byte"
    if _URL.match(text) and not _SCHEME.match(text):
        return None
    text = _SCHEME.sub("", text, count=1)
    if _VARIABLE.match(text):
        return "it starts at a home folder or variable"
    for form in {text, unquote(text)}:
        if reason := _path_outside_reason(form.replace("\\", "/"), workspaces):
            return reason
    return None


def _path_outside_reason(path: str, workspaces: Sequence[str]) -> str | None:
    roots = [normpath(root.replace("\\", "/")) for root in workspaces]
    drives = [root for root in roots if _DRIVE.match(root)]
    if _DRIVE.match(path):
        if any(_is_below(normpath(path).casefold(), root.casefold()) for root in drives):
            return None
        return "it is outside the workspace"
    whole = normpath(path) if isabs(path) else normpath(join(roots[0], path))
    # Some programs read two leading slashes as another machine.
    if whole.startswith("//") or not any(_is_below(whole, root) for root in roots):
        return "it is outside the workspace"
    return None


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root.rstrip('/')}/")

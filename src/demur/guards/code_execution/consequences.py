"""What an effect on a file amounts to, given where the file lies. One table a kind of effect."""

import re
from collections.abc import Iterator

from demur.guards.code_execution.call import CommandHit
from demur.guards.code_execution.effects import FileEffect, EffectKind
from demur.guards.code_execution.files import is_system_critical, read_rule, delete_rule, write_rule
from demur.guards.code_execution.places import (
    WorkspaceBounds,
    PathKind,
    canonical_path,
    classify_path,
)

__all__ = ["rules_for_effect"]

_DELETE_TREE_RULES = {
    PathKind.ROOT: "DELETE_ROOT",
    PathKind.SYSTEM: "DELETE_SYSTEM",
    PathKind.DEVICE: "DELETE_SYSTEM",
    PathKind.HOME_ITSELF: "DELETE_HOME",
    PathKind.HOME: "DELETE_HOME",
    PathKind.OUTSIDE: "DELETE_OUTSIDE",
    PathKind.WORKSPACE_ITSELF: "DELETE_WORKSPACE",
}
_DELETE_FILE_RULES = {
    **dict.fromkeys((PathKind.SYSTEM, PathKind.HOME, PathKind.OUTSIDE), "DELETE_FILE_OUTSIDE"),
    PathKind.ROOT: "DELETE_ROOT",
    PathKind.DEVICE: "DELETE_SYSTEM",
    PathKind.HOME_ITSELF: "DELETE_HOME",
}
_WIPE_RULES = {
    **_DELETE_TREE_RULES,
    PathKind.DEVICE: "OVERWRITE_DEVICE",
    PathKind.WORKSPACE_ITSELF: "DELETE_WORKSPACE",
    PathKind.INSIDE: "SHRED",
    PathKind.SCRATCH: "SHRED",
    PathKind.UNKNOWN: "SHRED",
}
_ROOT_IF_EMPTY = re.compile(r"\$\w*(?:/|/?\.?\*+)")  # the whole of `/` if the variable is empty
_HISTORY = ("/.git", "/.hg", "/.svn")


def rules_for_effect(effect: FileEffect, cwd: str, bounds: WorkspaceBounds) -> Iterator[CommandHit]:
    """Yield the rules that `effect` matches."""
    text = effect.target.text
    if effect.kind is EffectKind.READ:
        if rule := read_rule(canonical_path(text, cwd)):
            yield CommandHit(rule, text)
        return
    where = classify_path(text, cwd, bounds)
    if where is PathKind.STREAM:
        return
    path = canonical_path(text, cwd)
    if effect.kind is EffectKind.DELETE:
        yield from _rules_for_delete(effect, where, path)
    elif effect.kind is EffectKind.WIPE:
        yield CommandHit(_WIPE_RULES[where], text)
    else:
        yield from _rules_for_write(effect, where, path)


def _rules_for_delete(effect: FileEffect, path_kind: PathKind, path: str) -> Iterator[CommandHit]:
    text = effect.target.text
    if path_kind is not PathKind.INSIDE and (rule := delete_rule(path)):
        yield CommandHit(rule, text)
    elif path_kind is PathKind.UNKNOWN:
        if effect.tree and _ROOT_IF_EMPTY.fullmatch(text):
            yield CommandHit("DELETE_UNKNOWN", text)
    elif effect.tree and path.endswith(_HISTORY):
        yield CommandHit("DELETE_WORKSPACE", text)
    elif effect.searched and path_kind is PathKind.INSIDE:
        yield CommandHit("DELETE_SEARCHED", text)
    else:
        matches_many = effect.tree or "*" in text
        table = (
            _DELETE_TREE_RULES if matches_many or is_system_critical(path) else _DELETE_FILE_RULES
        )
        if path_kind in table:
            yield CommandHit(table[path_kind], text)


def _rules_for_write(effect: FileEffect, path_kind: PathKind, path: str) -> Iterator[CommandHit]:
    text = effect.target.text
    if path_kind is PathKind.DEVICE:
        yield CommandHit("OVERWRITE_DEVICE", text)
    elif not effect.adds and path_kind is not PathKind.INSIDE and (rule := delete_rule(path)):
        yield CommandHit(rule, text)
    elif rule := write_rule(path):
        lost = not effect.adds and is_system_critical(path) and rule == "ACCOUNT_FILES"
        yield CommandHit("OVERWRITE_SYSTEM" if lost else rule, text)
    elif path_kind in _OUTSIDE_KINDS:
        if is_system_critical(path):
            yield CommandHit("WRITE_SYSTEM" if effect.adds else "OVERWRITE_SYSTEM", text)
        else:
            yield CommandHit("WRITE_OUTSIDE", text)


_OUTSIDE_KINDS = frozenset(
    {PathKind.SYSTEM, PathKind.HOME, PathKind.HOME_ITSELF, PathKind.OUTSIDE, PathKind.ROOT}
)

"""What an effect on a file amounts to, given where the file lies. One table a kind of effect."""

import re
from collections.abc import Iterator

from demur.guards.code_execution.call import Sight
from demur.guards.code_execution.effects import Effect, Kind
from demur.guards.code_execution.files import needed, read_rule, removed_rule, written_rule
from demur.guards.code_execution.places import Bounds, Place, canonical, place

__all__ = ["consequences"]

_TREE = {
    Place.ROOT: "DELETE_ROOT",
    Place.SYSTEM: "DELETE_SYSTEM",
    Place.DEVICE: "DELETE_SYSTEM",
    Place.HOME_ITSELF: "DELETE_HOME",
    Place.HOME: "DELETE_HOME",
    Place.OUTSIDE: "DELETE_OUTSIDE",
    Place.WORKSPACE_ITSELF: "DELETE_WORKSPACE",
}
_SINGLE = {
    **dict.fromkeys((Place.SYSTEM, Place.HOME, Place.OUTSIDE), "DELETE_FILE_OUTSIDE"),
    Place.ROOT: "DELETE_ROOT",
    Place.DEVICE: "DELETE_SYSTEM",
    Place.HOME_ITSELF: "DELETE_HOME",
}
_WIPED = {
    **_TREE,
    Place.DEVICE: "OVERWRITE_DEVICE",
    Place.WORKSPACE_ITSELF: "DELETE_WORKSPACE",
    Place.INSIDE: "SHRED",
    Place.SCRATCH: "SHRED",
    Place.UNKNOWN: "SHRED",
}
_EMPTIES = re.compile(r"\$\w*(?:/|/?\.?\*+)")  # the whole of `/` if the variable is empty
_HISTORY = ("/.git", "/.hg", "/.svn")


def consequences(effect: Effect, cwd: str, bounds: Bounds) -> Iterator[Sight]:
    """Yield the rules that `effect` matches."""
    text = effect.target.text
    if effect.kind is Kind.READ:
        if rule := read_rule(canonical(text, cwd)):
            yield Sight(rule, text)
        return
    where = place(text, cwd, bounds)
    if where is Place.STREAM:
        return
    path = canonical(text, cwd)
    if effect.kind is Kind.DELETE:
        yield from _deleted(effect, where, path)
    elif effect.kind is Kind.WIPE:
        yield Sight(_WIPED[where], text)
    else:
        yield from _written(effect, where, path)


def _deleted(effect: Effect, where: Place, path: str) -> Iterator[Sight]:
    text = effect.target.text
    if where is not Place.INSIDE and (rule := removed_rule(path)):
        yield Sight(rule, text)
    elif where is Place.UNKNOWN:
        if effect.tree and _EMPTIES.fullmatch(text):
            yield Sight("DELETE_UNKNOWN", text)
    elif effect.tree and path.endswith(_HISTORY):
        yield Sight("DELETE_WORKSPACE", text)
    elif effect.searched and where is Place.INSIDE:
        yield Sight("DELETE_SEARCHED", text)
    else:
        matches_many = effect.tree or "*" in text
        table = _TREE if matches_many or needed(path) else _SINGLE
        if where in table:
            yield Sight(table[where], text)


def _written(effect: Effect, where: Place, path: str) -> Iterator[Sight]:
    text = effect.target.text
    if where is Place.DEVICE:
        yield Sight("OVERWRITE_DEVICE", text)
    elif not effect.adds and where is not Place.INSIDE and (rule := removed_rule(path)):
        yield Sight(rule, text)
    elif rule := written_rule(path):
        lost = not effect.adds and needed(path) and rule == "ACCOUNT_FILES"
        yield Sight("OVERWRITE_SYSTEM" if lost else rule, text)
    elif where in _ELSEWHERE:
        if needed(path):
            yield Sight("WRITE_SYSTEM" if effect.adds else "OVERWRITE_SYSTEM", text)
        else:
            yield Sight("WRITE_OUTSIDE", text)


_ELSEWHERE = frozenset({Place.SYSTEM, Place.HOME, Place.HOME_ITSELF, Place.OUTSIDE, Place.ROOT})

"""Names of tools that look alike: another alphabet, another spelling, one letter off.

Two names are alike if they have one skeleton (case, separators and look-alike letters set
aside), or if a typing mistake leads from one to the other. Short names are compared by skeleton
alone: `get` and `set` are one letter apart and mean different things.
"""

from collections.abc import Iterable

from demur.scan.fold import fold_text

__all__ = ["find_look_alike", "name_skeleton"]

# Digits that look like letters. Look-alike letters of other alphabets are already folded.
_DIGITS = str.maketrans("01358", "olesb", "_-./: ")
_MAX_COMPARED = 256
# From this length on, one typing mistake makes a look-alike, and from the next on, two.
_ONE_OFF = 6
_TWO_OFF = 12


def name_skeleton(name: str) -> str:
    """Return `name` without case, separators and look-alike letters."""
    plain = fold_text(name[:_MAX_COMPARED]).data.decode("latin-1").translate(_DIGITS)
    return plain.replace("rn", "m").replace("vv", "w").replace("i", "l")


def find_look_alike(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` could be taken for, or None; never `name` itself."""
    bones = name_skeleton(name)
    near: str | None = None
    for other in known:
        if other == name:
            continue
        theirs = name_skeleton(other)
        if bones == theirs:
            return other
        if near is None and _is_typing_slip(bones, theirs):
            near = other
    return near


def _is_typing_slip(one: str, other: str) -> bool:
    shorter = min(len(one), len(other))
    allowed = (shorter >= _ONE_OFF) + (shorter >= _TWO_OFF)
    if not allowed or abs(len(one) - len(other)) > allowed:
        return False
    return _edit_distance(one, other) <= allowed


def _edit_distance(one: str, other: str) -> int:
    """Return how many letters to change, add, drop or swap with their neighbour."""
    two_before: list[int] = []
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        two_before, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if two_before and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, two_before[j - 2] + 1)
            row.append(cost)
    return row[-1]

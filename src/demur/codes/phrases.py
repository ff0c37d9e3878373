"""Find the legacy phrase in a text, and reject a text without one at once.

Nearly every text holds no phrase. A few short fragments are chosen so that each
phrase contains at least one of them; a text with no fragment has no phrase, and
only the phrases behind the fragments that were seen are looked for.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["PhraseIndex"]

_FRAGMENT_LENGTH = 5


class _RankedPhrase(NamedTuple):
    rank: int
    text: str
    code: str


class PhraseIndex:
    """Finds the code of a text by casefolded legacy phrases. Immutable; safe to share."""

    __slots__ = ("_groups",)

    def __init__(self, phrases: Mapping[str, str]) -> None:
        # INVARIANT: the longest phrase wins, ties by code name.
        ordered = sorted(phrases.items(), key=lambda item: (-len(item[0]), item[1], item[0]))
        ranked = [_RankedPhrase(rank, text, code) for rank, (text, code) in enumerate(ordered)]
        self._groups = tuple(_choose_fragments(ranked))

    def find(self, text: str) -> str | None:
        """Return the code of the winning phrase in `text`, or None. Linear in the text."""
        folded = text.casefold()
        best: _RankedPhrase | None = None
        for fragment, phrases in self._groups:
            if fragment in folded:
                for phrase in phrases:
                    if best is not None and best.rank < phrase.rank:
                        break
                    if phrase.text in folded:
                        best = phrase
                        break
        return None if best is None else best.code


def _choose_fragments(
    phrases: Sequence[_RankedPhrase],
) -> list[tuple[str, tuple[_RankedPhrase, ...]]]:
    """Choose fragments greedily until each phrase is listed under exactly one."""
    holders: dict[str, list[_RankedPhrase]] = {}
    for phrase in phrases:
        for fragment in _list_fragments(phrase.text):
            holders.setdefault(fragment, []).append(phrase)
    uses = {fragment: len(held) for fragment, held in holders.items()}
    waiting = set(phrases)
    groups = []
    while waiting:
        fragment = max(uses, key=uses.__getitem__)
        group = [phrase for phrase in holders[fragment] if phrase in waiting]
        groups.append((fragment, tuple(group)))
        waiting.difference_update(group)
        for phrase in group:
            for part in _list_fragments(phrase.text):
                uses[part] -= 1
    return groups


def _list_fragments(phrase: str) -> list[str]:
    last = max(len(phrase) - _FRAGMENT_LENGTH, 0)
    return list(dict.fromkeys(phrase[at : at + _FRAGMENT_LENGTH] for at in range(last + 1)))

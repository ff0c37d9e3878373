"""The code that a line means by its legacy phrases, given which fragments were seen in it."""

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["PhraseTable"]


class PhraseTable:
    """The phrases behind each fragment, the winning ones first."""

    def __init__(self, phrases: Mapping[str, str], groups: Iterable[Iterable[str]]) -> None:
        ordered = sorted(phrases.items(), key=lambda item: (-len(item[0]), item[1], item[0]))
        rank = {phrase: number for number, (phrase, _) in enumerate(ordered)}
        self._all = [(number, phrase) for phrase, number in rank.items()]
        self._codes = [code for _, code in ordered]
        self._groups = [sorted((rank[phrase], phrase) for phrase in group) for group in groups]

    def find_code(self, line: str, literals: Sequence[int]) -> str | None:
        """Return the code of the winning phrase in the line, or None.

        `literals` are the numbers of the fragments in it; a number beyond them means any.
        """
        folded = line.casefold()
        for number, phrase in self._candidate_phrases(literals):
            if phrase in folded:
                return self._codes[number]
        return None

    def _candidate_phrases(self, literals: Sequence[int]) -> Sequence[tuple[int, str]]:
        seen = set(literals)
        if max(seen) >= len(self._groups):
            return self._all
        if len(seen) == 1:
            return self._groups[seen.pop()]
        return sorted(each for literal in seen for each in self._groups[literal])

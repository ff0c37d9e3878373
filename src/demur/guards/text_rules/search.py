"""Search model text for the rules of its surface, as it reads and turned by 13 letters.

A run of padding that is too long ends one text and begins the next (see `padding`).
"""

from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.guards.text_rules.folding import Folding
from demur.guards.text_rules.padding import LONGEST_PADDING, PADDING, padding_run, padding_start
from demur.guards.text_rules.plan import RulePlan
from demur.guards.text_rules.plan_matching import RuleHit, RuleMatching
from demur.guards.text_rules.seeking import Seen, Sought
from demur.model.finding import Action

__all__ = ["RuleSearch"]

_LOWER = bytes(range(ord("a"), ord("z") + 1))
_ROT13 = bytes.maketrans(_LOWER, _LOWER[13:] + _LOWER[:13])


class _View(NamedTuple):
    """A reading of the folded text, and its matcher."""

    via: str
    matching: RuleMatching


class RuleSearch:
    """Searches one text that comes in pieces for rules. Not to be shared between texts."""

    def __init__(self, plan: RulePlan, padding: Action | None) -> None:
        self._plan = plan
        self._padding = padding
        # Whether the text is inside a run of padding that is too long.
        self._skipping = False
        self._start(0)

    def _start(self, place: int) -> None:
        self._run = 0
        self._folding = Folding(place)
        self._views = (
            _View("", RuleMatching(self._plan)),
            _View("rot13", RuleMatching(self._plan)),
        )
        self._taken = place

    def advance(self, text: str, base: int, *, final: bool) -> Sought:
        """Return the matches decided now in a text whose character at `base` is `text[0]`.

        Places, here and in the result, count from the beginning of the whole text.
        """
        seen: list[Seen] = []
        while self._taken < base + len(text):
            self._take(text, base, seen)
        if final:
            seen += self._decide("", final=True)
            return Sought(tuple(seen), base + len(text))
        return Sought(tuple(seen), self._undecided())

    def _take(self, text: str, base: int, seen: list[Seen]) -> None:
        """Consume the text, or the part up to the end of a run of padding that is too long."""
        begin = self._taken - base
        if self._skipping:
            visible = PADDING.match(text, begin)
            assert visible is not None
            self._start(base + visible.end())
            self._skipping = visible.end() == len(text)
            return
        cut = padding_run(text, begin - self._run)
        if cut is None:
            seen += self._decide(text[begin:], final=False)
            self._run = len(text) - padding_start(text, begin - self._run, len(text))
            self._taken = base + len(text)
            return
        stop = cut + LONGEST_PADDING + 1
        seen += self._decide(text[begin:stop], final=True)
        if self._padding is not None:
            seen.append(_padded(base + cut, base + stop, self._padding))
        self._taken = base + stop
        self._skipping = True

    def _decide(self, text: str, *, final: bool) -> list[Seen]:
        folding = self._folding
        folding.add(text, final=final)
        seen = [
            self._seen(hit, view.via)
            for view in self._views
            for hit in view.matching.advance(
                _read(folding.data, view.via), folding.base, final=final
            )
        ]
        matching = self._views[0].matching
        folding.forget(min(matching.undecided, matching.needed))
        return seen

    def _seen(self, hit: RuleHit, via: str) -> Seen:
        rule = hit.rule
        evidence = {"rule": rule.id, "via": via} if via else {"rule": rule.id}
        start = self._folding.origin(hit.start)
        end = self._folding.origin(hit.end - 1) + 1
        return Seen(start, end, rule.code, rule.action, rule.description, evidence)

    def _undecided(self) -> int:
        if self._skipping:
            return self._taken
        return self._folding.origin(self._views[0].matching.undecided)


def _read(data: bytes, via: str) -> bytes:
    return data.translate(_ROT13) if via else data


def _padded(start: int, end: int, action: Action) -> Seen:
    detail = "a long run of characters that cannot be seen"
    return Seen(start, end, ReasonCode.OUTPUT_FORBIDDEN, action, detail, {"rule": "LONG_PADDING"})

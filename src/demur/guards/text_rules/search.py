"""Search model text for the rules of its surface, as it reads and turned by 13 letters.

A run of padding that is too long ends one text and begins the next (see `padding`).
"""

from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.guards.text_rules.folding import IncrementalFold
from demur.guards.text_rules.padding import MAX_PADDING, PADDING, find_padding, find_padding_start
from demur.guards.text_rules.plan import StreamPlan
from demur.guards.text_rules.plan_matching import StreamHit, IncrementalMatcher
from demur.guards.text_rules.seeking import TextMatch, SearchStep
from demur.model.finding import Action

__all__ = ["RuleSearch"]

_LOWER = bytes(range(ord("a"), ord("z") + 1))
_ROT13 = bytes.maketrans(_LOWER, _LOWER[13:] + _LOWER[:13])


class _SearchView(NamedTuple):
    """A reading of the folded text, and its matcher."""

    via: str
    matching: IncrementalMatcher


class RuleSearch:
    """Searches one text that comes in pieces for rules. Not to be shared between texts."""

    def __init__(self, plan: StreamPlan, padding: Action | None) -> None:
        self._plan = plan
        self._padding = padding
        # Whether the text is inside a run of padding that is too long.
        self._skipping = False
        self._restart(0)

    def _restart(self, place: int) -> None:
        self._run = 0
        self._folding = IncrementalFold(place)
        self._views = (
            _SearchView("", IncrementalMatcher(self._plan)),
            _SearchView("rot13", IncrementalMatcher(self._plan)),
        )
        self._taken = place

    def feed(self, text: str, base: int, *, final: bool) -> SearchStep:
        """Return the matches decided now in a text whose character at `base` is `text[0]`.

        Places, here and in the result, count from the beginning of the whole text.
        """
        seen: list[TextMatch] = []
        while self._taken < base + len(text):
            self._consume_text(text, base, seen)
        if final:
            seen += self._decide_text("", final=True)
            return SearchStep(tuple(seen), base + len(text))
        return SearchStep(tuple(seen), self._first_undecided())

    def _consume_text(self, text: str, base: int, matches: list[TextMatch]) -> None:
        """Consume the text, or the part up to the end of a run of padding that is too long."""
        begin = self._taken - base
        if self._skipping:
            visible = PADDING.match(text, begin)
            assert visible is not None
            self._restart(base + visible.end())
            self._skipping = visible.end() == len(text)
            return
        cut = find_padding(text, begin - self._run)
        if cut is None:
            matches += self._decide_text(text[begin:], final=False)
            self._run = len(text) - find_padding_start(text, begin - self._run, len(text))
            self._taken = base + len(text)
            return
        stop = cut + MAX_PADDING + 1
        matches += self._decide_text(text[begin:stop], final=True)
        if self._padding is not None:
            matches.append(_padding_match(base + cut, base + stop, self._padding))
        self._taken = base + stop
        self._skipping = True

    def _decide_text(self, text: str, *, final: bool) -> list[TextMatch]:
        folding = self._folding
        folding.feed(text, final=final)
        seen = [
            self._make_match(hit, view.via)
            for view in self._views
            for hit in view.matching.feed(
                _apply_view(folding.data, view.via), folding.base, final=final
            )
        ]
        matching = self._views[0].matching
        folding.drop_before(min(matching.first_undecided, matching.first_needed))
        return seen

    def _make_match(self, hit: StreamHit, via: str) -> TextMatch:
        rule = hit.rule
        evidence = {"rule": rule.id, "via": via} if via else {"rule": rule.id}
        start = self._folding.original_place(hit.start)
        end = self._folding.original_place(hit.end - 1) + 1
        return TextMatch(start, end, rule.code, rule.action, rule.description, evidence)

    def _first_undecided(self) -> int:
        if self._skipping:
            return self._taken
        return self._folding.original_place(self._views[0].matching.first_undecided)


def _apply_view(data: bytes, via: str) -> bytes:
    return data.translate(_ROT13) if via else data


def _padding_match(start: int, end: int, action: Action) -> TextMatch:
    detail = "a long run of characters that cannot be seen"
    return TextMatch(
        start, end, ReasonCode.OUTPUT_FORBIDDEN, action, detail, {"rule": "LONG_PADDING"}
    )

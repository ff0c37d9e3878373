"""Hold back text for as long as it could be part of something that must not leave.

Several searches go over the same text, each at its own pace. What all of them have decided
is free; findings come out in the order of their places, whatever the pieces of the text.
"""

from collections.abc import Iterator
from operator import itemgetter

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.secrets.ascii_view import AsciiView, make_ascii_view, search_view
from demur.guards.text_rules.padding import MAX_PADDING
from demur.guards.text_rules.search import RuleSearch
from demur.guards.text_rules.seeking import TextSearch, TextMatch
from demur.model.finding import Action, Finding, Span

__all__ = ["OutputScanner"]

# A larger piece is scanned in parts, which bounds the text kept in memory. Smaller pieces
# are joined, because each scan reads the held-back text once more.
_MAX_PART = 16_384
_MIN_STEP = 64
_STRICTNESS = {Action.WARN: 0, Action.ESCALATE: 1, Action.BLOCK: 2}
# Data that the prompt already holds is no leak.
_ECHOES = frozenset({ReasonCode.SECRET_LEAK, ReasonCode.PII_DETECTED})


_RankedMatch = tuple[tuple[int, int, int, str, str], TextMatch]


def _rank_match(match: TextMatch, rank: int) -> _RankedMatch:
    """Return a match with its sort key: by place, then by the rank of its search."""
    return (match.start, rank, -match.end, match.code, str(match.evidence)), match


class OutputScanner:
    """Runs all searches over one text that comes in pieces. Not to be shared between texts."""

    def __init__(
        self,
        rules: RuleSearch,
        searches: tuple[TextSearch, ...],
        *,
        surface: Surface,
        prompt: str | None = None,
    ) -> None:
        self._rules = rules
        self._searches = searches
        self._places = [0] * len(searches)
        self._surface = surface
        self._prompt = prompt
        self._waiting = ""
        self._text = ""
        self._base = 0
        self._matches: list[_RankedMatch] = []
        self._last: dict[str, TextMatch] = {}
        self.decided_until = 0

    def feed(self, text: str, *, final: bool = False) -> Iterator[Finding]:
        """Yield the findings that this piece decides, in the order of places.

        Text before `decided_until` is free: nothing found later begins before it.
        """
        # INVARIANT: what is found does not depend on the pieces in which a text comes.
        text = self._waiting + text
        if len(text) < _MIN_STEP and not final:
            self._waiting = text
            return
        self._waiting = ""
        for start in range(0, max(len(text), 1), _MAX_PART):
            part = text[start : start + _MAX_PART]
            yield from self._scan_part(part, final=final and start + _MAX_PART >= len(text))

    def _scan_part(self, text: str, *, final: bool) -> list[Finding]:
        self._text += text
        seen, decided = self._rules.feed(self._text, self._base, final=final)
        self._matches += [_rank_match(each, 0) for each in seen]
        keep = decided - MAX_PADDING
        view = make_ascii_view(self._text)
        for number, seeker in enumerate(self._searches):
            # A search that is ahead of the others cannot release text, so it waits.
            if final or self._places[number] < decided:
                self._run_search(number, seeker, view, final=final)
            place = self._places[number]
            decided = min(decided, place)
            keep = min(keep, place - seeker.reach)
        self.decided_until = decided
        found = self._ready_findings(final=final) if self._matches else []
        keep = min(keep, decided)
        if keep > self._base:
            self._text = self._text[keep - self._base :]
            self._base = keep
        return found

    def _run_search(self, number: int, search: TextSearch, view: AsciiView, *, final: bool) -> None:
        base = self._base
        begin = self._places[number] - base
        if search.search_ascii is None:
            seen, undecided = search.search(self._text, begin, final)
        else:
            seen, undecided = search_view(view, search.search_ascii, self._text, begin, final=final)
        for each in seen:
            moved = each._replace(start=each.start + base, end=each.end + base)
            self._matches.append(_rank_match(moved, number + 1))
        self._places[number] = undecided + base

    def _ready_findings(self, *, final: bool) -> list[Finding]:
        """Return findings that no later one can precede, each once."""
        self._matches.sort(key=itemgetter(0))
        count = len(self._matches)
        if not final:
            later = (
                at for at, (_, each) in enumerate(self._matches) if each.start >= self.decided_until
            )
            count = next(later, count)
        ready, self._matches = self._matches[:count], self._matches[count:]
        return [self._make_finding(each) for _, each in ready if self._is_new(each)]

    def _is_new(self, match: TextMatch) -> bool:
        """Return whether no earlier finding of the code covers this one."""
        last = self._last.get(match.code)
        if last and match.end <= last.end and _STRICTNESS[match.action] <= _STRICTNESS[last.action]:
            return False
        self._last[match.code] = match
        return True

    def _make_finding(self, match: TextMatch) -> Finding:
        action, evidence = match.action, match.evidence
        if match.code in _ECHOES and self._prompt and self._matched_text(match) in self._prompt:
            action, evidence = Action.WARN, {**evidence, "echoed": True}
        return Finding(
            code=str(match.code),
            surface=self._surface,
            span=Span(start=match.start, end=match.end),
            detail=match.detail,
            evidence=evidence,
            action=action,
        )

    def _matched_text(self, match: TextMatch) -> str:
        return self._text[match.start - self._base : match.end - self._base]

"""Hold back text for as long as it could be part of something that must not leave.

Several searches go over the same text, each at its own pace. What all of them have decided
is free; findings come out in the order of their places, whatever the pieces of the text.
"""

from collections.abc import Iterator
from operator import itemgetter

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.secrets.ascii_view import AsciiView, ascii_view, seek_in
from demur.guards.text_rules.padding import LONGEST_PADDING
from demur.guards.text_rules.search import RuleSearch
from demur.guards.text_rules.seeking import Seeker, Seen
from demur.model.finding import Action, Finding, Span

__all__ = ["Holding"]

# A larger piece is scanned in parts, which bounds the text kept in memory. Smaller pieces
# are joined, because each scan reads the held-back text once more.
_PART = 16_384
_STEP = 64
_STRICTNESS = {Action.WARN: 0, Action.ESCALATE: 1, Action.BLOCK: 2}
# Data that the prompt already holds is no leak.
_ECHOES = frozenset({ReasonCode.SECRET_LEAK, ReasonCode.PII_DETECTED})


_Ranked = tuple[tuple[int, int, int, str, str], Seen]


def _ranked(seen: Seen, rank: int) -> _Ranked:
    """Return a match with its sort key: by place, then by the rank of its search."""
    return (seen.start, rank, -seen.end, seen.code, str(seen.evidence)), seen


class Holding:
    """Runs all searches over one text that comes in pieces. Not to be shared between texts."""

    def __init__(
        self,
        rules: RuleSearch,
        seekers: tuple[Seeker, ...],
        *,
        surface: Surface,
        prompt: str | None = None,
    ) -> None:
        self._rules = rules
        self._seekers = seekers
        self._places = [0] * len(seekers)
        self._surface = surface
        self._prompt = prompt
        self._waiting = ""
        self._text = ""
        self._base = 0
        self._seen: list[_Ranked] = []
        self._last: dict[str, Seen] = {}
        self.decided = 0

    def add(self, text: str, *, final: bool = False) -> Iterator[Finding]:
        """Yield the findings that this piece decides, in the order of places.

        Text before `decided_until` is free: nothing found later begins before it.
        """
        # INVARIANT: what is found does not depend on the pieces in which a text comes.
        text = self._waiting + text
        if len(text) < _STEP and not final:
            self._waiting = text
            return
        self._waiting = ""
        for start in range(0, max(len(text), 1), _PART):
            part = text[start : start + _PART]
            yield from self._add(part, final=final and start + _PART >= len(text))

    def _add(self, text: str, *, final: bool) -> list[Finding]:
        self._text += text
        seen, decided = self._rules.advance(self._text, self._base, final=final)
        self._seen += [_ranked(each, 0) for each in seen]
        keep = decided - LONGEST_PADDING
        view = ascii_view(self._text)
        for number, seeker in enumerate(self._seekers):
            # A search that is ahead of the others cannot release text, so it waits.
            if final or self._places[number] < decided:
                self._seek(number, seeker, view, final=final)
            place = self._places[number]
            decided = min(decided, place)
            keep = min(keep, place - seeker.reach)
        self.decided = decided
        found = self._ready(final=final) if self._seen else []
        keep = min(keep, decided)
        if keep > self._base:
            self._text = self._text[keep - self._base :]
            self._base = keep
        return found

    def _seek(self, number: int, seeker: Seeker, view: AsciiView, *, final: bool) -> None:
        base = self._base
        begin = self._places[number] - base
        if seeker.in_ascii is None:
            seen, undecided = seeker.seek(self._text, begin, final)
        else:
            seen, undecided = seek_in(view, seeker.in_ascii, self._text, begin, final=final)
        for each in seen:
            moved = each._replace(start=each.start + base, end=each.end + base)
            self._seen.append(_ranked(moved, number + 1))
        self._places[number] = undecided + base

    def _ready(self, *, final: bool) -> list[Finding]:
        """Return findings that no later one can precede, each once."""
        self._seen.sort(key=itemgetter(0))
        count = len(self._seen)
        if not final:
            later = (at for at, (_, each) in enumerate(self._seen) if each.start >= self.decided)
            count = next(later, count)
        ready, self._seen = self._seen[:count], self._seen[count:]
        return [self._finding(each) for _, each in ready if self._is_new(each)]

    def _is_new(self, seen: Seen) -> bool:
        """Return whether no earlier finding of the code covers this one."""
        last = self._last.get(seen.code)
        if last and seen.end <= last.end and _STRICTNESS[seen.action] <= _STRICTNESS[last.action]:
            return False
        self._last[seen.code] = seen
        return True

    def _finding(self, seen: Seen) -> Finding:
        action, evidence = seen.action, seen.evidence
        if seen.code in _ECHOES and self._prompt and self._read(seen) in self._prompt:
            action, evidence = Action.WARN, {**evidence, "echoed": True}
        return Finding(
            code=str(seen.code),
            surface=self._surface,
            span=Span(start=seen.start, end=seen.end),
            detail=seen.detail,
            evidence=evidence,
            action=action,
        )

    def _read(self, seen: Seen) -> str:
        return self._text[seen.start - self._base : seen.end - self._base]

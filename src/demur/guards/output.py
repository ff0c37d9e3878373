"""The output guard: what must not leave in a model's answer. Codes: see `CODES`.

It finds forbidden content and signs of failed alignment (rules, as data), credentials, numbers
that stand for a person, and the system's own instructions. Several searches read the same text,
each at its own pace; text is released once all of them have decided it. So a whole text and the
same text in pieces (`demur.guards.output_stream`) give the same findings.

Limits: rules know mechanisms in English, not what an answer means. Refusals, advice, news and
teaching pass because of the words around them. An encoded word is decoded by itself; text that
is encoded over several words, spelt with spaces or written backwards is not read. A leak of
instructions is found word for word, not in translation or summary.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Annotated, NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.input import crisis_evidence
from demur.guards.personal_data import personal_data_search
from demur.guards.rule_matching import MAX_TEXT_LENGTH, scan_encoded
from demur.guards.rule_streaming import RuleSearch, get_stream_plan
from demur.guards.secret_formats import FORMATTED_SECRETS, PRIVATE_KEYS
from demur.guards.secret_values import ASSIGNED_SECRETS, LOOSE_SECRETS
from demur.guards.text_rules import RuleSet, builtin_rules
from demur.guards.text_search import (
    AsciiView,
    SearchStep,
    TextMatch,
    TextSearch,
    has_long_word,
    make_ascii_view,
    search_view,
)
from demur.model.finding import Action, Finding, Span
from demur.text.incremental_fold import MAX_PADDING

_MIN_ENCODED = 24
# A longer word is read in parts of this size; base 64 and hex decode part by part.
_MAX_ENCODED = 4096
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_=%\\-"
_STRETCH = re.compile(rf"[A-Za-z0-9+/_=%\\-]{{{_MIN_ENCODED},{_MAX_ENCODED}}}", re.ASCII)
_PROMISING = re.compile(
    r"[0-9A-Fa-f]{24}|%[0-9A-Fa-f]{2}|\\[xu][0-9A-Fa-f]{2}"
    r"|\A(?=.*[a-z])(?=.*[0-9+/=])[^A-Z]*[A-Z]"
)


def encoded_text_search(rules: RuleSet) -> TextSearch:
    """Return the search for rules in what is encoded."""

    def search(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
        matches: list[TextMatch] = []
        promising = has_long_word(text, begin, _MIN_ENCODED)
        for stretch in _STRETCH.finditer(text, begin) if promising else ():
            if stretch.end() == len(text) and not final and len(stretch[0]) < _MAX_ENCODED:
                return SearchStep(tuple(matches), stretch.start())
            begin = stretch.end()
            if _PROMISING.search(stretch[0]):
                place = stretch.start()
                for rule, start, end, via in scan_encoded(stretch[0], rules):
                    facts = (rule.code, rule.action, rule.description)
                    evidence = {"rule": rule.id, "via": via}
                    matches.append(TextMatch(place + start, place + end, *facts, evidence))
        if final:
            return SearchStep(tuple(matches), len(text))
        last = text[max(begin, len(text) - _MIN_ENCODED) :]
        return SearchStep(tuple(matches), len(text) - len(last) + len(last.rstrip(_ALPHABET)))

    return TextSearch(search, reach=0)


# A longer word counts as several.
_WORD = re.compile(r"[^\W_]{1,32}")
# Words that are farther apart are not read as one text.
_MAX_WORD_GAP = 64
# A longer leak is reported in pieces.
_MAX_LEAK_WORDS = 80
_LEAK = (ReasonCode.PROMPT_LEAK, Action.BLOCK)


class _LeakWord(NamedTuple):
    text: str
    start: int
    end: int


def instructions_search(instructions: str, words: int) -> TextSearch | None:
    """Return the search for `words` words in a row of the instructions; None if they have fewer."""
    known = [found[0].casefold() for found in _WORD.finditer(instructions)]
    rows = frozenset(tuple(known[at : at + words]) for at in range(len(known) - words + 1))
    if not rows:
        return None

    def search(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
        matched = _WORD.finditer(text, begin)
        found = [_LeakWord(match[0].casefold(), *match.span()) for match in matched]
        last = found[-1].end if found else begin
        # The last word may continue in the next piece, unless a wide gap follows it.
        usable = len(found) - (0 if final or last < len(text) else 1)
        closed = final or len(text) - last > _MAX_WORD_GAP
        matches: list[TextMatch] = []
        at = 0
        while at + words <= usable:
            size = _count_leaked(found[at : min(usable, at + _MAX_LEAK_WORDS)], rows, words)
            if size and not closed and at + size == usable and size < _MAX_LEAK_WORDS:
                return SearchStep(tuple(matches), found[at].start)
            if size:
                detail = f"{size} words in a row of the system's instructions"
                overlap = {"overlap": round(min(1.0, size / len(known)), 3)}
                span = (found[at].start, found[at + size - 1].end)
                matches.append(TextMatch(*span, *_LEAK, detail, overlap))
            at += max(size, 1)
        held = found[at].start if at < len(found) and not closed else len(text)
        return SearchStep(tuple(matches), held)

    return TextSearch(search, reach=0)


def _count_leaked(found: list[_LeakWord], rows: frozenset[tuple[str, ...]], words: int) -> int:
    """Return how many of the first words stand in the instructions; 0 if too few."""
    size = 0
    for first in range(len(found) - words + 1):
        row = found[first : first + words]
        close = all(after.start - before.end <= _MAX_WORD_GAP for before, after in pairwise(row))
        if tuple(word.text for word in row) not in rows or not close:
            break
        size = first + words
    return size


def canary_search(mark: str) -> TextSearch:
    """Return the search for a mark that was planted in the instructions and nowhere else."""

    def search(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
        matches: list[TextMatch] = []
        detail = "a mark planted in the system's instructions"
        place = text.find(mark, begin)
        while place >= 0:
            begin = place + len(mark)
            matches.append(TextMatch(place, begin, *_LEAK, detail, {}))
            place = text.find(mark, begin)
        undecided = len(text) if final else max(begin, len(text) - len(mark) + 1)
        return SearchStep(tuple(matches), undecided)

    return TextSearch(search, reach=0)


# A larger piece is scanned in parts, which bounds the text kept in memory. Smaller pieces
# are joined, because each scan reads the held-back text once more.
_MAX_PART = 16_384
_MIN_STEP = 80
# A reader waits for the first words, so the first piece is smaller.
_FIRST_STEP = 64
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
        least = _MIN_STEP if self._text else _FIRST_STEP
        if len(text) < least and not final:
            self._waiting = text
            return
        self._waiting = ""
        for start in range(0, max(len(text), 1), _MAX_PART):
            part = text[start : start + _MAX_PART]
            yield from self._scan_part(part, final=final and start + _MAX_PART >= len(text))

    def _scan_part(self, text: str, *, final: bool) -> list[Finding]:
        self._text += text
        matches, decided = self._rules.feed(self._text, self._base, final=final)
        # The text as it stands ranks before other readings of the same words.
        self._matches += [_rank_match(match, int("via" in match.evidence)) for match in matches]
        keep = decided - MAX_PADDING
        view = make_ascii_view(self._text)
        for number, search in enumerate(self._searches):
            # A search that is ahead of the others cannot release text, so it waits.
            if final or self._places[number] < decided:
                self._run_search(number, search, view, final=final)
            place = self._places[number]
            decided = min(decided, place)
            keep = min(keep, place - search.reach)
        self.decided_until = decided
        found: list[Finding] = []
        if self._matches:
            # No later finding can precede these; each is returned once.
            self._matches.sort(key=itemgetter(0))
            starts = [match.start for _, match in self._matches]
            count = len(starts) if final else bisect_left(starts, decided)
            ready, self._matches = self._matches[:count], self._matches[count:]
            found = [self._make_finding(match) for _, match in ready if self._is_new(match)]
        keep = min(keep, decided)
        if keep > self._base:
            self._text = self._text[keep - self._base :]
            self._base = keep
        return found

    def _run_search(self, number: int, search: TextSearch, view: AsciiView, *, final: bool) -> None:
        base = self._base
        begin = self._places[number] - base
        if search.search_ascii is None:
            step = search.search(self._text, begin, final)
        else:
            step = search_view(view, search.search_ascii, self._text, begin, final=final)
        for match in step.matches:
            moved = match._replace(start=match.start + base, end=match.end + base)
            self._matches.append(_rank_match(moved, number + 2))
        self._places[number] = step.undecided + base

    def _is_new(self, match: TextMatch) -> bool:
        """Return whether no earlier finding of the code covers this one."""
        last = self._last.get(match.code)
        if last and match.end <= last.end and _STRICTNESS[match.action] <= _STRICTNESS[last.action]:
            return False
        self._last[match.code] = match
        return True

    def _make_finding(self, match: TextMatch) -> Finding:
        action, evidence = match.action, match.evidence
        text = self._text[match.start - self._base : match.end - self._base]
        if match.code in _ECHOES and self._prompt and text in self._prompt:
            action, evidence = Action.WARN, {**evidence, "echoed": True}
        if match.code == ReasonCode.CRISIS_ESCALATION:
            evidence = {**crisis_evidence(str(evidence.get("rule", ""))), **evidence}
        return Finding(
            code=str(match.code),
            surface=self._surface,
            span=Span(start=match.start, end=match.end),
            detail=match.detail,
            evidence=evidence,
            action=action,
        )


SURFACE = Surface.OUTPUT
CODES: tuple[str, ...] = (
    ReasonCode.OUTPUT_FORBIDDEN,
    ReasonCode.SECRET_LEAK,
    ReasonCode.PII_DETECTED,
    ReasonCode.PROMPT_LEAK,
    ReasonCode.CONTENT_PRIVACY,
    ReasonCode.CONTENT_WEAPONS,
    ReasonCode.CONTENT_CBRN,
    ReasonCode.CONTENT_CYBER,
    ReasonCode.CONTENT_CRIME,
    ReasonCode.CONTENT_FRAUD,
    ReasonCode.CONTENT_SOCIAL_ENGINEERING,
    ReasonCode.CONTENT_SELF_HARM,
    ReasonCode.CONTENT_CSAE,
    ReasonCode.CONTENT_VIOLENCE,
    ReasonCode.CONTENT_HATE,
    ReasonCode.CONTENT_HARASSMENT,
    ReasonCode.CRISIS_ESCALATION,
)


class OutputText(NamedTuple):
    """An answer, and the prompt that it answers, where that is known.

    Data that the prompt already holds is no leak: it is only recorded.
    """

    text: str
    prompt: str | None = None


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the output guard.

    `rules` replaces the built-in ones. `secrets` looks for credentials by format and by name,
    `loose_secrets` for random words that are only recorded. `personal` is the action for
    certain personal data; None looks for none. `leak_words` words in a row of the
    `system_prompt` are a leak; a `canary` is a mark planted in it. `padding` is the action for a
    long run of invisible characters. `longest`: how many characters a whole answer may have.
    """

    rules: RuleSet | None = None
    secrets: bool = True
    loose_secrets: bool = True
    personal: Action | None = Action.ESCALATE
    system_prompt: str | None = None
    leak_words: int = 10
    canary: str | None = None
    padding: Action | None = Action.WARN
    longest: Annotated[int, msgspec.Meta(ge=1)] = MAX_TEXT_LENGTH


_DEFAULT = OutputConfig()


def check(event: OutputText, config: OutputConfig = _DEFAULT) -> Iterator[Finding]:
    """Yield the findings in an answer, in the order of spans.

    Raises:
        InputError: The answer is no text, or has more characters than may be looked at.
    """
    if not isinstance(event.text, str):
        raise InputTypeError.wrong_type("an answer", "a text", event.text)
    if len(event.text) > config.longest:
        problem = f"the answer has {len(event.text)} characters, more than {config.longest}"
        raise InputError(problem, help="guard it as a stream, or raise `longest`")
    yield from make_scanner(config, prompt=event.prompt).feed(event.text, final=True)


def make_scanner(config: OutputConfig, *, prompt: str | None = None) -> OutputScanner:
    """Return a scanner for one answer, whole or in pieces."""
    rules = builtin_rules(SURFACE) if config.rules is None else config.rules
    search = RuleSearch(get_stream_plan(rules), config.padding)
    searches = tuple(_build_searches(config, rules))
    return OutputScanner(search, searches, surface=SURFACE, prompt=prompt)


def _build_searches(config: OutputConfig, rules: RuleSet) -> Iterator[TextSearch]:
    if config.secrets:
        yield from (FORMATTED_SECRETS, PRIVATE_KEYS, ASSIGNED_SECRETS)
    if config.secrets and config.loose_secrets:
        yield LOOSE_SECRETS
    if config.personal is not None:
        yield personal_data_search(config.personal)
    if config.canary:
        yield canary_search(config.canary)
    if config.system_prompt:
        leak = instructions_search(config.system_prompt, config.leak_words)
        yield from (leak,) if leak else ()
    yield encoded_text_search(rules)

"""Find a surface's text rules in a text: one pass, then each rule decides by positions.

Looks at the text as it reads and at what is encoded in it (see `demur.scan.decode`). Spans
are places in the original text. Time grows with the length of the text and with nothing else.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.text_rules.matching import Matcher
from demur.guards.text_rules.rule import Rule, RuleSet
from demur.model.finding import Finding, Span
from demur.scan.decode import readings
from demur.scan.fold import Folded, fold

__all__ = ["LONGEST", "PLAIN", "Hit", "findings", "scan", "scan_encoded"]

LONGEST = 20_000_000
PLAIN = "plain"
_REMEMBERED = 32


class Hit(NamedTuple):
    """A rule that was found at `text[start:end]`, as it reads or `via` an encoding."""

    rule: Rule
    start: int
    end: int
    via: str = PLAIN


def scan(text: str, rules: RuleSet, *, longest: int = LONGEST) -> list[Hit]:
    """Return the hits of the rules in `text`, in the order of spans.

    Raises:
        InputError: The text has more than `max_length` characters.
    """
    if not isinstance(text, str):
        raise InputTypeError.expected("the text", "a string", text)
    if len(text) > longest:
        raise InputError(
            f"the text has {len(text)} characters, more than {longest}",
            help="scan it in parts, or raise `max_length`",
        )
    matcher = _matcher(rules)
    folded = fold(text)
    hits = _plain(folded, matcher)
    return _in_order(hits, _encoded(text, folded, matcher))


def scan_encoded(text: str, rules: RuleSet) -> list[Hit]:
    """Return only the hits in encoded parts of `text`, as `scan_text` finds them."""
    matcher = _matcher(rules)
    folded = fold(text)
    found = list(_encoded(text, folded, matcher))
    # Most words hold nothing encoded, and then the plain search is not needed.
    hits = _in_order(_plain(folded, matcher), found) if found else found
    return [hit for hit in hits if hit.via != PLAIN]


def _plain(folded: Folded, matcher: Matcher) -> list[Hit]:
    return [Hit(rule, *folded.span(start, end)) for rule, start, end in matcher.find(folded.data)]


def _encoded(text: str, folded: Folded, matcher: Matcher) -> Iterator[Hit]:
    """Yield the hits in other readings of a text, the plainer readings first."""
    for view, read in readings(text, folded):
        for rule, start, end in matcher.find(read.data):
            span = read.span(start, end)
            if via := view.via(*span):
                yield Hit(rule, *view.span(*span), via)


def _in_order(plain: list[Hit], more: Iterable[Hit]) -> list[Hit]:
    """Return all hits by place, without those that a plainer reading already has."""
    known: dict[str, list[Hit]] | None = None
    hits = plain
    for new in more:
        if known is None:
            known = defaultdict(list)
            for hit in plain:
                known[hit.rule.id].append(hit)
        same = known[new.rule.id]
        if not any(hit.start < new.end and new.start < hit.end for hit in same):
            same.append(new)
            hits.append(new)
    return sorted(hits, key=_place) if len(hits) > 1 else hits


def findings(text: str, rules: RuleSet, surface: Surface | None = None) -> Iterator[Finding]:
    """Yield a finding for each hit, in the order of spans."""
    for hit in scan(text, rules):
        yield finding(hit, surface or rules.surface)


def finding(hit: Hit, surface: Surface) -> Finding:
    """Return the hit as a finding: its rule's code, action and description."""
    evidence = {"rule": hit.rule.id}
    if hit.via != PLAIN:
        evidence["via"] = hit.via
    return Finding(
        code=hit.rule.code,
        surface=surface,
        span=Span(start=hit.start, end=hit.end),
        detail=hit.rule.description,
        evidence=evidence,
        action=hit.rule.action,
    )


def _place(hit: Hit) -> tuple[int, int, str]:
    return hit.start, hit.end, hit.rule.id


_lock = threading.Lock()
_matchers: dict[str, Matcher] = {}


def _matcher(rules: RuleSet) -> Matcher:
    """Return the matcher of a rule set; the newest matchers are cached."""
    with _lock:
        found = _matchers.get(rules.digest)
        if found is None:
            found = _matchers[rules.digest] = Matcher(rules)
        if len(_matchers) > _REMEMBERED:
            del _matchers[next(iter(_matchers))]
        return found

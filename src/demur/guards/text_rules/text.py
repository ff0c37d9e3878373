"""Find a surface's text rules in a text: one pass, then each rule decides by positions.

Looks at the text as it reads and at what is encoded in it (see `demur.scan_text.decode`). Spans
are places in the original text. Time grows with the length of the text and with nothing else.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.text_rules.matching import RuleMatcher
from demur.guards.text_rules.rule import TextRule, RuleSet
from demur.model.finding import Finding, Span
from demur.scan.decode import decode_readings
from demur.scan.fold import FoldedText, fold_text

__all__ = [
    "MAX_TEXT_LENGTH",
    "PLAIN_READING",
    "TextHit",
    "find_text_findings",
    "scan_text",
    "scan_encoded",
]

MAX_TEXT_LENGTH = 20_000_000
PLAIN_READING = "plain"
_REMEMBERED = 32


class TextHit(NamedTuple):
    """A rule that was found at `text[start:end]`, as it reads or `encoding_chain` an encoding."""

    rule: TextRule
    start: int
    end: int
    via: str = PLAIN_READING


def scan_text(text: str, rules: RuleSet, *, max_length: int = MAX_TEXT_LENGTH) -> list[TextHit]:
    """Return the hits of the rules in `text`, in the order of spans.

    Raises:
        InputError: The text has more than `max_length` characters.
    """
    if not isinstance(text, str):
        raise InputTypeError.wrong_type("the text", "a string", text)
    if len(text) > max_length:
        raise InputError(
            f"the text has {len(text)} characters, more than {max_length}",
            help="scan it in parts, or raise `max_length`",
        )
    matcher = _get_matcher(rules)
    folded = fold_text(text)
    hits = _find_plain(folded, matcher)
    return _merge_hits(hits, _find_encoded(text, folded, matcher))


def scan_encoded(text: str, rules: RuleSet) -> list[TextHit]:
    """Return only the hits in encoded parts of `text`, as `scan_text` finds them."""
    matcher = _get_matcher(rules)
    folded = fold_text(text)
    found = list(_find_encoded(text, folded, matcher))
    # Most words hold nothing encoded, and then the plain search is not needed.
    hits = _merge_hits(_find_plain(folded, matcher), found) if found else found
    return [hit for hit in hits if hit.via != PLAIN_READING]


def _find_plain(folded: FoldedText, matcher: RuleMatcher) -> list[TextHit]:
    return [
        TextHit(rule, *folded.original_span(start, end))
        for rule, start, end in matcher.find_hits(folded.data)
    ]


def _find_encoded(text: str, folded: FoldedText, matcher: RuleMatcher) -> Iterator[TextHit]:
    """Yield the hits in other readings of a text, the plainer readings first."""
    for view, read in decode_readings(text, folded):
        for rule, start, end in matcher.find_hits(read.data):
            span = read.original_span(start, end)
            if via := view.encoding_chain(*span):
                yield TextHit(rule, *view.original_span(*span), via)


def _merge_hits(plain: list[TextHit], more: Iterable[TextHit]) -> list[TextHit]:
    """Return all hits by place, without those that a plainer reading already has."""
    known: dict[str, list[TextHit]] | None = None
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
    return sorted(hits, key=_sort_key) if len(hits) > 1 else hits


def find_text_findings(
    text: str, rules: RuleSet, surface: Surface | None = None
) -> Iterator[Finding]:
    """Yield a finding for each hit, in the order of spans."""
    for hit in scan_text(text, rules):
        yield hit_finding(hit, surface or rules.surface)


def hit_finding(hit: TextHit, surface: Surface) -> Finding:
    """Return the hit as a finding: its rule's code, action and description."""
    evidence = {"rule": hit.rule.id}
    if hit.via != PLAIN_READING:
        evidence["via"] = hit.via
    return Finding(
        code=hit.rule.code,
        surface=surface,
        span=Span(start=hit.start, end=hit.end),
        detail=hit.rule.description,
        evidence=evidence,
        action=hit.rule.action,
    )


def _sort_key(hit: TextHit) -> tuple[int, int, str]:
    return hit.start, hit.end, hit.rule.id


_lock = threading.Lock()
_matchers: dict[str, RuleMatcher] = {}


def _get_matcher(rules: RuleSet) -> RuleMatcher:
    """Return the matcher of a rule set; the newest matchers are cached."""
    with _lock:
        found = _matchers.get(rules.digest)
        if found is None:
            found = _matchers[rules.digest] = RuleMatcher(rules)
        if len(_matchers) > _REMEMBERED:
            del _matchers[next(iter(_matchers))]
        return found

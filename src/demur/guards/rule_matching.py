"""Match text rules in a whole text: one pass for all patterns, then each rule decides by positions.

The matcher reads the text itself and what is encoded in it (see `demur.scan.decode`). Spans are
places in the original text. Of each rule the rarest pattern is searched in the whole text, the
others only near it. Time grows with the length of the text and with nothing else.

A phrase is mentioned, not used, where it stands in quotes, words around it speak of examples,
tests or attacks, and nothing outside the quotes asks to follow it. Limits: only
nearby English words show a mention; a mention is still recorded.
"""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError, Problem
from demur.guards.text_languages import find_languages
from demur.guards.text_rules import RuleSet, TextRule, add_languages, language_rules
from demur.model.finding import Finding, Span
from demur.scan.cache import require_loading
from demur.scan.database import PatternDatabase, ScanEngineType, SearchWindow
from demur.scan.decode import decode_readings
from demur.scan.pattern import MAX_USEFUL_RATE, Pattern
from demur.text.fold import FoldedText, fold_text

# Hits of one rule in one text; more say nothing new.
MAX_HITS = 50
# Stretches near each other are searched together, up to this many bytes.
_MAX_SECTION = 16 << 10
# In up to this many places it pays to check one more pattern first.
_MAX_EARLY_CHECKS = 2
# A pattern up to this size is searched as it is, and so stops the search less often.
_MAX_EXACT_SIZE = 1_000
_LARGE_FACTOR = 2

ByteSpan = tuple[int, int]


class FoldedHit(NamedTuple):
    """A rule that was hit at these bytes of folded text."""

    rule: TextRule
    start: int
    end: int


class _MatchPlan(NamedTuple):
    """A rule, its patterns with the rarest first, and the indexes of those in the database."""

    rule: TextRule
    patterns: tuple[Pattern, ...]
    indexes: tuple[int, ...]


class RuleMatcher:
    """Finds the rules of a set. Safe to share between threads."""

    def __init__(self, rules: RuleSet, *, engine: ScanEngineType | None = None) -> None:
        patterns: dict[Pattern, int] = {}
        plans = [_plan_rule(rule, patterns) for rule in rules.rules]
        self.database = PatternDatabase(patterns, engine=engine)
        self._plans: list[list[_MatchPlan]] = [[] for _ in patterns]
        for plan in plans:
            self._plans[plan.indexes[0]].append(plan)

    def find_hits(self, data: bytes) -> list[FoldedHit]:
        """Return the hits in folded text: in order for each rule, and never overlapping."""
        survey = self.database.find_candidates(data)
        found: list[FoldedHit] = []
        for index in survey.candidates:
            for plan in self._plans[index]:
                if all(other in survey.candidates for other in plan.indexes) and _is_near(
                    plan, survey.candidates[index], data
                ):
                    places = survey.find_spans(index)
                    if len(plan.patterns) > 1:
                        places = _find_together(plan, places, data)
                    merged = _merge_places(_drop_cancelled(plan.rule, places, data))
                    found += [FoldedHit(plan.rule, start, end) for start, end in merged]
        return found


def _plan_rule(rule: TextRule, patterns: dict[Pattern, int]) -> _MatchPlan:
    ordered = sorted(rule.patterns, key=_search_cost)
    # A pattern that most texts hold slows the search down and rules nothing out.
    rare = [each for each in ordered[1:] if each.index.required_words.rate < MAX_USEFUL_RATE]
    indexed = [ordered[0], *rare]
    places = (patterns.setdefault(pattern, len(patterns)) for pattern in indexed)
    return _MatchPlan(rule, tuple(ordered), tuple(places))


def _search_cost(pattern: Pattern) -> float:
    """Return how often a search for the pattern stops; a large one is searched by its words."""
    large = pattern.index.core_size > _MAX_EXACT_SIZE
    return pattern.index.required_words.rate * (_LARGE_FACTOR if large else 1)


def _is_near(plan: _MatchPlan, stretches: Sequence[ByteSpan], data: bytes) -> bool:
    """Return whether the second pattern matches near a candidate of the rarest one.

    The candidate is most likely a match, but the other patterns are seldom near it.
    """
    if len(plan.patterns) == 1 or len(stretches) > _MAX_EARLY_CHECKS:
        return True
    within = plan.rule.within
    near = (SearchWindow(data, start - within, stop + within) for start, stop in stretches)
    return any(window.has_match(plan.patterns[1]) for window in near)


def _find_together(plan: _MatchPlan, rarest: Iterable[ByteSpan], data: bytes) -> Iterator[ByteSpan]:
    """Yield each shortest stretch that holds one of each pattern and is not too long."""
    within = plan.rule.within
    for section, anchors in _split_sections(rarest, within, data):
        found = [anchors]
        for pattern in plan.patterns[1:]:
            found.append(list(section.find_spans(pattern)))
            if not found[-1]:
                break
        else:
            yield from _shortest_stretches(found, within)


def _split_sections(
    anchors: Iterable[ByteSpan], within: int, data: bytes
) -> Iterator[tuple[SearchWindow, list[ByteSpan]]]:
    """Yield parts of the text, each with the anchors whose surroundings it holds."""
    held: list[ByteSpan] = []
    section = SearchWindow(data, 0, 0)
    for start, end in anchors:
        if held and (end - within > section.end or start - section.start > _MAX_SECTION):
            yield section, held
            held = []
        first = section.start if held else end - within
        section = SearchWindow(data, first, start + within)
        held.append((start, end))
    if held:
        yield section, held


def _shortest_stretches(found: list[list[ByteSpan]], within: int) -> Iterator[ByteSpan]:
    events = sorted((end, start, kind) for kind, spans in enumerate(found) for start, end in spans)
    latest = [-1] * len(found)
    before = -1
    for end, start, kind in events:
        latest[kind] = start
        # A stretch that ends here must begin at `first` to hold one of each.
        first = min(latest)
        # A stretch with the same start that ended earlier was shorter.
        if first > before and first >= end - within:
            yield first, end
        before = first


def _drop_cancelled(rule: TextRule, places: Iterable[ByteSpan], data: bytes) -> Iterator[ByteSpan]:
    """Yield the places near which no cancelling pattern begins."""
    for start, end in places:
        near = SearchWindow(data, start - rule.within, end + rule.within)
        if not any(near.has_match(pattern) for pattern in rule.unless):
            yield start, end


def _merge_places(places: Iterable[ByteSpan]) -> list[ByteSpan]:
    """Return the places with overlapping ones merged, up to the limit."""
    merged: list[ByteSpan] = []
    for start, end in places:
        if merged and start < merged[-1][1]:
            merged[-1] = (min(start, merged[-1][0]), max(end, merged[-1][1]))
        elif len(merged) == MAX_HITS:
            break
        else:
            merged.append((start, end))
    return merged


MAX_TEXT_LENGTH = 20_000_000
PLAIN_READING = "plain"
_REMEMBERED = 32


class TextHit(NamedTuple):
    """A rule that was found at `text[start:end]`, as it reads or `via` an encoding."""

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
        problem = f"the text has {len(text)} characters, more than {max_length}"
        raise InputError(problem, help="scan it in parts, or raise `max_length`")
    folded = fold_text(text)
    hits = _scan_folded(text, folded, rules)
    if rules.languages:
        more = [
            hit
            for language in find_languages(text, folded.data)
            if language in rules.languages
            for hit in _scan_folded(text, folded, language_rules(language, rules.language_codes))
        ]
        return sorted((*hits, *more), key=_hit_order) if more else hits
    return hits


def _scan_folded(text: str, folded: FoldedText, rules: RuleSet) -> list[TextHit]:
    matcher = _get_matcher(rules)
    return _merge_hits(_find_plain(folded, matcher), _find_encoded(text, folded, matcher))


def scan_encoded(text: str, rules: RuleSet) -> list[TextHit]:
    """Return only the hits in encoded parts of `text`, as `scan_text` finds them."""
    matcher, folded = _get_matcher(rules), fold_text(text)
    found = list(_find_encoded(text, folded, matcher))
    # Most words hold nothing encoded, and then the plain search is not needed.
    hits = _merge_hits(_find_plain(folded, matcher), found) if found else found
    return [hit for hit in hits if hit.via != PLAIN_READING]


def _find_plain(folded: FoldedText, matcher: RuleMatcher) -> list[TextHit]:
    hits = matcher.find_hits(folded.data)
    return [TextHit(rule, *folded.original_span(start, end)) for rule, start, end in hits]


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
        hits_of_rule = known[new.rule.id]
        if not any(hit.start < new.end and new.start < hit.end for hit in hits_of_rule):
            hits_of_rule.append(new)
            hits.append(new)
    return sorted(hits, key=_hit_order)


def _hit_order(hit: TextHit) -> tuple[int, int, str]:
    return hit.start, hit.end, hit.rule.id


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


def finding_order(finding: Finding) -> tuple[int, int, str]:
    """Return the sort key of findings: their spans, and then their rules."""
    assert finding.span is not None
    return finding.span.start, finding.span.end, str(finding.evidence["rule"])


_lock = threading.Lock()
_matchers: dict[str, RuleMatcher] = {}


def _get_matcher(rules: RuleSet) -> RuleMatcher:
    """Return the matcher of a rule set; the newest matchers are cached."""
    found = _matchers.get(rules.digest)
    if found is not None:
        return found
    require_loading()
    with _lock:
        found = _matchers.get(rules.digest)
        if found is None:
            found = _matchers[rules.digest] = RuleMatcher(rules)
        if len(_matchers) > _REMEMBERED:
            del _matchers[next(iter(_matchers))]
        return found


_REACH = 200
_WIDE_REACH = 400
_OPENS = "\"'`\u201c\u2018\u00ab\u300c\u300e"
_CLOSES = "\"'`\u201d\u2019\u00bb\u300d\u300f"
_OPENING = re.compile(rf"(?:^|[\s(\[{{=:,>#r])[{_OPENS}][^{_OPENS}{_CLOSES}]{{0,80}}$")
_CLOSING = re.compile(rf"^[^{_OPENS}{_CLOSES}]{{0,120}}[{_CLOSES}]")
_TALK = re.compile(
    r"\b(?:examples?|phrases?|quot(?:e|es|ed|ing)|strings?|literal(?:ly)?|samples?|fixtures?"
    r"|detect(?:s|ed|ing|ion|ors?)?|prompt[- ]injections?|injections?|jailbreaks?|attack(?:s|ers?)?"
    r"|tests?|test(?:ed|ing)|train(?:ing|er|ers)|lessons?|learners|students|slides?|quiz|tutorial"
    r"|guidance|documentation|docs|readme|changelog|release notes|false positives?|blog|articles?"
    r"|papers?|benchmark|writeup|reports?|postmortem|explain(?:s|ed|ing)?|describ(?:es|ed|ing)"
    r"|classif\w+|flag(?:s|ged)?|untrusted|refused?|analysts?|recogni[sz]e|polic(?:y|ies)|called"
    r"|means?|known as|such as|says|said|saying|mentions?|includes?|contains?|containing"
    r"|assert\w*|const|regex|patterns?)\b",
    re.IGNORECASE,
)
# Words that only a text about attacks uses, and words that introduce an example.
_ATTACK_TALK = re.compile(
    r"\b(?:prompt[- ]injections?|injections? attacks?|jailbreak(?:s|ing)?|attackers?|payloads?"
    r"|malicious|adversar(?:y|ial)|red[- ]team(?:ing)?|owasp|threat model|guardrails?"
    r"|untrusted (?:text|content|input))\b",
    re.IGNORECASE,
)
_LEADS_IN = re.compile(
    r"(?:\be\.g\.|\b(?:for (?:example|instance)|such as|like|says?|writes?|phrase)\b"
    rf"|[:>*|{_OPENS}-])[^.!?]{{0,60}}$",
    re.IGNORECASE,
)
_FOLLOW = re.compile(
    r"\b(?:follow|obey|execute|carry out|comply with|act on|do what|apply|now do|adopt) "
    r"(?:it|this|that|these|them|the (?:following|quote|quoted|instructions?|text|phrase)|what)\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:not|n't|never|without|instead of|rather than)\b[\w\s]{0,48}$", re.IGNORECASE
)


def flooded_rules(hits: Iterable[TextHit]) -> set[str]:
    """Return the rules that reached the limit of hits: a use may follow the mentions."""
    counted = Counter(hit.rule.id for hit in hits)
    return {rule for rule, count in counted.items() if count >= MAX_HITS}


def is_mentioned(text: str, start: int, end: int) -> bool:
    """Return whether `text[start:end]` is mentioned rather than used."""
    before, after = text[max(0, start - _REACH) : start], text[end : end + _REACH]
    opened, closed = _OPENING.search(before), _CLOSING.search(after)
    if opened is None or closed is None:
        return False
    around = f"{before[: opened.start() + 1]} {after[closed.end() :]}"
    return _TALK.search(around) is not None and not _asks_to_follow(around)


def is_example(text: str, start: int, end: int) -> bool:
    """Return whether `text[start:end]` is an example in a text that explains attacks."""
    before, after = text[max(0, start - _WIDE_REACH) : start], text[end : end + _WIDE_REACH]
    words = {word.lower() for word in _ATTACK_TALK.findall(f"{before} {after}")}
    return len(words) > 1 and _LEADS_IN.search(before) is not None and not _asks_to_follow(before)


def _asks_to_follow(around: str) -> bool:
    return any(not _NEGATED.search(around[: order.start()]) for order in _FOLLOW.finditer(around))


_SHOWN = 80


def check_rows(rules: RuleSet) -> list[Problem]:
    """Return a problem for each `refuse` row that is missed and each `allow` row that is hit."""
    every = add_languages(rules).rules
    return [problem for rule in every for problem in _check_rule_rows(rule, rules)]


def _check_rule_rows(rule: TextRule, rules: RuleSet) -> Iterator[Problem]:
    for row in rule.refuse:
        if not _row_hits(rule, row, rules):
            yield Problem(rule.where, f"rule `{rule.id}` misses its `refuse` row `{row[:_SHOWN]}`")
    for row in rule.allow:
        for hit in _row_hits(rule, row, rules):
            problem = f"rule `{rule.id}` hits its `allow` row `{row[:_SHOWN]}`"
            yield Problem(rule.where, problem, f"it sees `{hit[:_SHOWN]}`")


def _row_hits(rule: TextRule, row: str, rules: RuleSet) -> list[str]:
    return [row[hit.start : hit.end] for hit in scan_text(row, rules) if hit.rule.id == rule.id]

"""Properties of the scanner: folding, the grammar, both engines, and rules by position."""

# ruff: noqa: RUF001 - letters that look like others are what is tested

import base64
import re
import unicodedata
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.property_runs import examples

from demur.codes.vocabulary import Surface
from demur.guards.rule_matching import FoldedHit, RuleMatcher
from demur.guards.rule_streaming import IncrementalMatcher, StreamPlan
from demur.guards.text_rules import RuleSet, TextRule
from demur.model.finding import Action
from demur.scan import opening
from demur.scan import pattern as core
from demur.scan.database import (
    PatternDatabase,
    Re2Engine,
    ScanEngineType,
    choose_engine,
    compile_searcher,
)
from demur.scan.decode import decode_readings
from demur.scan.grammar import PatternError
from demur.scan.pattern import Pattern, parse_pattern
from demur.text.fold import fold_text

ANY_TEXT = st.text(st.characters(codec=None), max_size=120)
# Letters, look-alikes, marks, invisible and wide characters, spaces, and half characters.
ODD = st.text(
    st.sampled_from("aAbB  \n\t\u00a0\u200b\u00adéÉßоО\u0301жЖ한ﬁ…漢😀\ud800ΝνΗ\ufe0f\U000e0041"),
    max_size=80,
)


@pytest.fixture(scope="module", autouse=True)
def _no_cache() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEMUR_CACHE", "off")
        yield


@given(st.one_of(ANY_TEXT, ODD))
def test_every_span_lies_in_the_text_and_spans_never_go_back(text: str) -> None:
    """INVARIANT: what is folded away widens no span, and nothing is mapped outside the text."""
    folded = fold_text(text)
    places = [folded.original_span(byte, byte + 1) for byte in range(len(folded.data))]

    assert all(0 <= start < end <= len(text) for start, end in places)
    assert places == sorted(places)


@given(st.one_of(ANY_TEXT, ODD))
def test_folding_what_a_span_marks_gives_what_was_matched(text: str) -> None:
    folded = fold_text(text)
    greek = set("ΝΗΥΜΖ")
    for byte in range(0, len(folded.data), 7):
        start, end = folded.original_span(byte, byte + 1)
        if not greek & set(text):
            assert folded.data[byte : byte + 1] in fold_text(text[start:end]).data


@given(ODD, ODD)
def test_equivalent_texts_fold_alike(one: str, other: str) -> None:
    text = one + "Stra\u00dfe \u0439" + other
    # Half characters have no other form, and these capitals go by the letter beside them.
    if not set("\ud800ΝΗ") & set(text):
        composed = unicodedata.normalize("NFC", text)
        assert fold_text(composed).data == fold_text(unicodedata.normalize("NFD", text)).data


@given(st.text(st.sampled_from("abcdefgh ijk\u200b"), max_size=600))
def test_long_and_short_ways_back_agree(text: str) -> None:
    wide = "é" + text
    folded = fold_text(wide)
    kept = [place for place, letter in enumerate(wide) if letter != "\u200b"]
    squeezed = [
        place
        for before, place in zip([-1, *kept], kept, strict=False)
        if not (wide[place] == " " and before >= 0 and wide[before] == " ")
    ]

    assert [folded.original_span(byte, byte + 1)[0] for byte in range(len(folded.data))] == squeezed


WORDS = st.sampled_from(["a", "ab", "ba", "cat", "abc", "b", "ca", " ", "é", "ж", "-"])
ATOMS = st.one_of(
    WORDS,
    st.sampled_from([".", r"\b", r"\w", r"\d", r"\s", "[ab]", "[^a]", "[a-c]", "[aж]", r"\W"]),
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeats = st.sampled_from(["?", "{2}", "{0,3}", "{1,2}"])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, repeats).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    )


def _read(source: str) -> Pattern | None:
    try:
        return parse_pattern(source)
    except PatternError:
        return None


SOURCES = st.recursive(ATOMS, _larger, max_leaves=8)
PATTERNS = st.lists(SOURCES.map(_read).filter(bool), min_size=1, max_size=5)
DATA = st.lists(
    st.sampled_from(["a", "b", "c", " ", "ab", "cat", "d", "1", "é", "ж", "-", "\u200b", "😀"]),
    max_size=60,
).map("".join)


def _spans(
    patterns: list[Pattern], data: bytes, engine: ScanEngineType, chunk: int
) -> list[object]:
    survey = PatternDatabase(patterns, engine=engine, chunk=chunk).find_candidates(data)
    return [list(survey.find_spans(index)) for index in range(len(patterns))]


@given(PATTERNS, DATA, st.sampled_from([8, 1 << 16]))
@settings(max_examples=examples(150))
def test_both_engines_find_the_same_and_miss_nothing(
    patterns: list[Pattern], text: str, chunk: int
) -> None:
    """INVARIANT: the engine decides the speed and never the result."""
    data = fold_text(text).data
    direct = [
        [found.span() for found in compile_searcher(pattern.expression).finditer(data)]
        for pattern in patterns
    ]

    assert _spans(patterns, data, Re2Engine, chunk) == direct
    assert _spans(patterns, data, choose_engine(), chunk) == direct


def _gapped(parts: list[str]) -> str:
    return ".{0,6}".join(parts)


PIECES = st.lists(SOURCES, min_size=2, max_size=3).map(_gapped)
GAPPED = st.one_of(
    PIECES, st.tuples(PIECES, PIECES, SOURCES).map(lambda p: f"({p[0]}|{p[1]}){p[2]}")
)


@given(st.lists(GAPPED.map(_read).filter(bool), min_size=1, max_size=3), DATA)
@settings(max_examples=examples(100))
def test_patterns_that_are_cut_at_their_gaps_find_the_same(
    patterns: list[Pattern], text: str
) -> None:
    data = fold_text(text).data
    direct = [
        [found.span() for found in compile_searcher(pattern.expression).finditer(data)]
        for pattern in patterns
    ]
    with pytest.MonkeyPatch.context() as patch:
        # Whatever there is to be cut is cut, however small the pattern and common the words.
        for name, value in {"_LARGE": 0, "_MIN_PIECE_SIZE": 0, "_GAP": 4, "_SELDOM": 1e9}.items():
            patch.setattr(core, name, value)

        assert _spans(patterns, data, choose_engine(), 8) == direct


@given(SOURCES.map(_read).filter(bool), DATA)
def test_a_pattern_means_what_the_standard_library_says(pattern: Pattern, text: str) -> None:
    data = fold_text(text).data
    found = compile_searcher(pattern.expression).search(data)
    standard = re.search(pattern.expression, data, re.DOTALL)

    assert (found is None) == (standard is None)
    if standard and found:
        assert found.start() == standard.start()
        assert found.end() - found.start() <= pattern.width


@given(SOURCES.map(_read).filter(bool), DATA)
def test_no_match_is_without_what_the_pattern_requires(pattern: Pattern, text: str) -> None:
    data = fold_text(text).data
    if compile_searcher(pattern.expression).search(data):
        assert all(
            compile_searcher(clause).search(data) for clause in pattern.index.required_words.clauses
        )


@given(GAPPED.map(_read).filter(bool), DATA, st.sampled_from([(1, 3, 5), (4, 6, 9), (8, 16, 24)]))
def test_each_match_begins_with_each_opening(
    pattern: Pattern, text: str, widths: tuple[int, ...]
) -> None:
    """INVARIANT: an opening rules out no place where a match begins."""
    data = fold_text(text).data
    starts = [start for start in range(len(data)) if _matches_at(pattern.expression, data, start)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "OPENING_WIDTHS", widths)
        patch.setattr(opening, "_FIRST_WIDTHS", widths[:1])
        found = parse_pattern(pattern.source).opening
    if found is not None:
        assert found.head.width <= widths[0]
        for expression in (found.head.expression, *found.longer):
            assert all(_matches_at(expression, data, start) for start in starts)


def _matches_at(expression: bytes, data: bytes, start: int) -> bool:
    return compile_searcher(expression).match(data, start) is not None


WIDE = st.tuples(SOURCES, st.sampled_from(["", "z", ".{0,3}"]), SOURCES).map(
    lambda parts: f"{parts[0]}.{{0,60}}{parts[1]}{parts[2]}"
)


@given(
    st.lists(st.one_of(WIDE, SOURCES).map(_read).filter(bool), min_size=1, max_size=3),
    st.lists(DATA, min_size=1, max_size=8),
    st.integers(1, 90),
)
@settings(max_examples=examples(200))
def test_text_that_was_let_go_is_in_no_later_hit(
    patterns: list[Pattern], parts: list[str], size: int
) -> None:
    """INVARIANT: no hit begins before the place that was decided already."""
    data = fold_text("z".join(parts)).data
    one, *others = patterns
    rule = TextRule(
        id="R", code="SECRET_LEAK", action=Action.BLOCK, description="", patterns=tuple(patterns)
    )
    alone = msgspec.structs.replace(rule, id="A", patterns=(one,), unless=tuple(others), within=9)
    plan = StreamPlan(RuleSet(surface=Surface.OUTPUT, rules=(rule, alone), digest=""))
    pieces, whole = IncrementalMatcher(plan), IncrementalMatcher(plan)
    hits = []
    for end in range(size, len(data) + size, size):
        before = pieces.first_undecided
        final = end >= len(data)
        new = pieces.feed(data[:end], 0, final=final)
        assert all(hit.start >= before for hit in new)
        hits += new

    assert sorted(hits, key=_hit_order) == sorted(whole.feed(data, 0, final=True), key=_hit_order)


def _hit_order(hit: FoldedHit) -> tuple[str, int]:
    return hit.rule.id, hit.start


@given(st.text(max_size=40))
def test_any_text_is_a_pattern_or_a_problem(source: str) -> None:
    pattern = _read(source)
    if pattern is None:
        with pytest.raises(PatternError) as caught:
            parse_pattern(source)
        assert 0 <= caught.value.position <= len(source)
    else:
        assert compile_searcher(pattern.expression) is not None


TOKENS = st.lists(st.sampled_from(["one", "two", "six", "not", "..", "....."]), max_size=40)


@given(TOKENS, st.integers(3, 30), st.booleans())
def test_rules_decide_by_position_as_the_definition_says(
    tokens: list[str], within: int, cancelled: bool
) -> None:
    data = "".join(tokens).encode()
    names = ("one", "two", "six")
    rule = TextRule(
        id="R",
        code="CONTEXT_INJECTION",
        action=Action.BLOCK,
        description="made up",
        patterns=tuple(map(parse_pattern, names)),
        within=within,
        unless=(parse_pattern("not"),) if cancelled else (),
    )
    rules = RuleSet(surface=Surface.INPUT, rules=(rule,), digest="")
    covered = {
        byte
        for start in range(len(data))
        for end in range(start, min(start + within, len(data)) + 1)
        if _is_hit(data, start, end, within, cancelled)
        for byte in range(start, end)
    }
    found = RuleMatcher(rules, engine=Re2Engine).find_hits(data)

    assert {byte for _, start, end in found for byte in range(start, end)} == covered


def _is_hit(data: bytes, start: int, end: int, within: int, cancelled: bool) -> bool:
    """Return whether a stretch holds all three, no shorter one in it does, and nothing cancels."""
    holds = _holds(data[start:end])
    shortest = holds and not _holds(data[start + 1 : end]) and not _holds(data[start : end - 1])
    near = data[max(start - within, 0) : end + within + 2]
    return shortest and not (cancelled and b"not" in near)


def _holds(part: bytes) -> bool:
    return all(word in part for word in (b"one", b"two", b"six"))


@given(
    st.one_of(
        ANY_TEXT, ODD, st.text(st.sampled_from("%41\\u0&#;xABCDEFabcdef= \n.1@"), max_size=200)
    )
)
def test_readings_lead_back_into_the_text(text: str) -> None:
    for view, folded in decode_readings(text, fold_text(text)):
        assert folded.data == fold_text(view.text).data
        for start in range(0, len(view.text), 11):
            first, last = view.original_span(start, start + 1)
            assert 0 <= first < last <= len(text)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=15, max_size=80))
def test_every_encoded_text_is_read(plain: str) -> None:
    encoded = base64.b64encode(plain.encode()).decode()
    text = f"see {encoded}"

    assert any(plain in view.text for view, _ in decode_readings(text, fold_text(text)))

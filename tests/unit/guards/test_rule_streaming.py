import codecs
import re

import pytest
from support.sample_rules import make_rules

from demur.codes.vocabulary import Surface
from demur.guards.rule_matching import MAX_HITS
from demur.guards.rule_streaming import (
    IncrementalMatcher,
    RuleSearch,
    StreamPlan,
    get_stream_plan,
)
from demur.guards.text_rules import RuleSet
from demur.guards.text_search import TextMatch
from demur.model.finding import Action
from demur.scan.database import compile_searcher
from demur.text.fold import fold_character, fold_text
from demur.text.incremental_fold import (
    MAX_PADDING,
    PADDING,
    IncrementalFold,
    find_padding,
    find_padding_start,
)

TEXTS = [
    "Plain ASCII, with  two   spaces.",
    " \t\n leading",
    "trailing \n ",
    "a\u200bb\u0301c \u3000 d",
    "A\u039dN\u039d \u039dN \u039c\u039ca a\u039c\u039c",
    "\u039d\u039d",
    "\uff46\uff55\uff4c\uff4c \uff37\uff29\uff24\uff34\uff28",
    "漢字 и буквы",
    "\ud83d\ude00 \udc00",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pieces_fold_to_the_same_bytes_as_the_whole(text: str, size: int) -> None:
    folding = IncrementalFold(0)
    for start in range(0, len(text), size):
        folding.feed(text[start : start + size], final=False)
    folding.feed("", final=True)
    whole = fold_text(text)

    assert folding.data == whole.data
    assert folding.end == len(text)
    assert [folding.original_place(byte) for byte in range(len(whole.data) + 1)] == [
        whole.original_span(byte, byte + 1)[0] for byte in range(len(whole.data) + 1)
    ]


def test_places_are_counted_from_the_start_of_the_text() -> None:
    folding = IncrementalFold(100)
    folding.feed("abc", final=False)

    assert [folding.original_place(byte) for byte in (0, 2, 3)] == [100, 102, 103]


def test_dropped_text_is_gone_and_the_rest_keeps_its_place() -> None:
    folding = IncrementalFold(0)
    for piece in ("ab", "cd", "ef"):
        folding.feed(piece, final=False)
    folding.drop_before(3)
    folding.drop_before(1)

    assert (folding.data, folding.base, folding.length) == (b"def", 3, 6)
    assert folding.original_place(3) == 3


def test_a_capital_waits_for_the_letter_that_follows() -> None:
    folding = IncrementalFold(0)
    folding.feed("\u039d", final=False)

    assert (folding.data, folding.end) == (b"", 0)
    folding.feed("ow", final=False)
    assert folding.data == b"now"


# All of Unicode but the large blocks of Chinese, Korean and private letters.
POINTS = [
    point
    for first, last in (
        (0, 0x3400),
        (0xA000, 0xAC00),
        (0xD7A4, 0xE000),
        (0xF900, 0x17000),
        (0x1AFF0, 0x20000),
        (0xE0000, 0xE1000),
    )
    for point in range(first, last)
]


def test_everything_that_folds_away_is_padding() -> None:
    gone = [chr(point) for point in POINTS if fold_character(chr(point)) in {"", " "}]

    assert [character for character in gone if not PADDING.fullmatch(character)] == []


def test_letters_are_no_padding() -> None:
    assert [text for text in ("a", "é", "ж", "漢", "1", "-", "") if PADDING.fullmatch(text)] == [""]


def test_the_first_run_that_is_too_long_is_found() -> None:
    long = " " * (MAX_PADDING + 1)

    assert find_padding(f"ab{long[1:]}c", 0) is None
    assert find_padding(f"ab{long}c", 0) == 2
    assert find_padding(f"a b{long}c{long}", 0) == 3
    assert find_padding(f"ab{long}c", 3) is None


def test_padding_at_the_end_is_measured() -> None:
    assert find_padding_start("ab \u200b\n", 0, 5) == 2
    assert find_padding_start("   ", 0, 3) == 0
    assert find_padding_start("   ", 1, 3) == 1
    assert find_padding_start("ab", 0, 2) == 2


def test_a_rule_set_is_planned_once() -> None:
    assert get_stream_plan(make_rules("pattern: same")) is get_stream_plan(
        make_rules("pattern: same")
    )
    assert get_stream_plan(make_rules("pattern: same")) is not get_stream_plan(
        make_rules("pattern: other")
    )


def test_the_plans_used_last_are_kept() -> None:
    first = get_stream_plan(make_rules("pattern: the first of many"))
    for number in range(40):
        get_stream_plan(make_rules(f"pattern: number {number} of many"))

    assert get_stream_plan(make_rules("pattern: the first of many")) is not first


def test_a_plan_says_how_much_text_settles_each_rule() -> None:
    plan = StreamPlan(
        make_rules(
            "pattern: abc",
            "all: [abc, de]\nwithin: 20",
            "pattern: abc\nunless: [fghi]\nwithin: 30",
        )
    )

    assert [each.settled for each in plan.plans] == [4, 24, 3 + 30 + 4 + 1 + 1]
    assert [each.before for each in plan.plans] == [0, 0, 35]
    assert (plan.widest, plan.settled, plan.before) == (3, 39, 35)


def test_a_pattern_shared_by_rules_is_looked_for_once() -> None:
    plan = StreamPlan(make_rules("pattern: abc", "all: [abc, de]"))

    assert len(plan.patterns) == 2
    assert plan.readers == {0: [0, 1], 1: [1]}
    expression = plan.patterns[0].expression
    assert compile_searcher(expression) is compile_searcher(expression)


def test_without_rules_there_is_nothing_to_match() -> None:
    plan = StreamPlan(make_rules("pattern: abc"))
    empty = StreamPlan(RuleSet(surface=Surface.OUTPUT, rules=(), digest=""))

    assert list(plan.find_matching(b"xabcx")) == [0]
    assert list(empty.find_matching(b"xabcx")) == []
    assert (empty.widest, empty.settled) == (0, 0)


def hits(rules: RuleSet, text: str, size: int | None = None) -> list[tuple[str, int, int]]:
    matching = IncrementalMatcher(StreamPlan(rules))
    found = []
    data = text.encode()
    for end in range(0, len(data), size or len(data) + 1):
        found += matching.feed(data[:end], 0, final=False)
    found += matching.feed(data, 0, final=True)
    return [(hit.rule.id, hit.start, hit.end) for hit in found]


CASES = [
    ("pattern: ab{1,3}", "xabbbbx ab", [("R0", 1, 5), ("R0", 8, 10)]),
    ("pattern: \\bcat\\b", "cat concat cat", [("R0", 0, 3), ("R0", 11, 14)]),
    ("all: [one, two]\nwithin: 9", "one two", [("R0", 0, 7)]),
    ("all: [one, two]\nwithin: 9", "two one", [("R0", 0, 7)]),
    ("all: [one, two]\nwithin: 9", "one ..... two", []),
    ("all: [one, two]\nwithin: 9", "one one two two one", [("R0", 4, 11), ("R0", 12, 19)]),
    ("pattern: go\nunless: [stop]\nwithin: 6", "go now", [("R0", 0, 2)]),
    ("pattern: go\nunless: [stop]\nwithin: 6", "stop, go", []),
    ("pattern: go\nunless: [stop]\nwithin: 6", "go or stop", []),
    ("pattern: go\nunless: [stop]\nwithin: 6", "stop ...... go", [("R0", 12, 14)]),
    ("pattern: go\nunless: [stop]\nwithin: 6", "go ......... stop", [("R0", 0, 2)]),
    ("pattern: go\nunless: [stop]\nwithin: 6", "top go stopp", []),
    ("pattern: go\nunless: [\\bstop]\nwithin: 6", "xstop go", [("R0", 6, 8)]),
    ("all: [aa, aa]\nwithin: 9", "aa", [("R0", 0, 2)]),
]


@pytest.mark.parametrize("size", [None, 1, 2, 5])
@pytest.mark.parametrize(("rule", "text", "wanted"), CASES)
def test_rules_are_decided_by_positions_whatever_the_pieces(
    rule: str, text: str, wanted: list[tuple[str, int, int]], size: int | None
) -> None:
    assert hits(make_rules(rule), text, size) == wanted


def test_a_flood_of_hits_is_cut_off() -> None:
    assert len(hits(make_rules("pattern: ab"), "ab " * 200)) == MAX_HITS


def test_old_text_is_needed_no_more() -> None:
    matching = IncrementalMatcher(StreamPlan(make_rules("pattern: go\nunless: [stop]\nwithin: 6")))
    text = b"." * 80 + b" go"
    matching.feed(text, 0, final=False)

    assert matching.first_undecided == 83 - (2 + 1)
    assert matching.first_needed == 83 - (2 + 6 + 4 + 2) - (6 + 4 + 2)
    [hit] = matching.feed(text[matching.first_needed :], matching.first_needed, final=True)
    assert (hit.start, hit.end) == (81, 83)


WIDE = make_rules("pattern: '\\bhere is (\\w{1,9} ){0,9}(guide|plan) to rob\\b'\nunless: [never]")
PROSE = "the weather is fine today and there is nothing else to say about it, " * 3


def undecided(text: str) -> int:
    """Return how much of a text, read in pieces, may still be part of a hit."""
    matching = IncrementalMatcher(StreamPlan(WIDE))
    for end in range(30, len(text) + 30, 30):
        matching.feed(text[:end].encode(), 0, final=False)
    return len(text) - matching.first_undecided


def test_text_is_kept_only_while_a_match_may_have_begun() -> None:
    begun = "here is one small plan to "
    assert undecided(PROSE) < 60
    assert undecided(f"{PROSE}{begun}") < 60
    assert undecided(f"{PROSE}{begun}rob {PROSE[:90]}") == len(f"{begun}rob {PROSE[:90]}")
    assert undecided(f"{PROSE}here is one more word that i did not say and will not") < 60
    assert undecided(f"{PROSE}here is a b c d e f g h{' i' * 30}") < 90


RULES = make_rules("pattern: bad words", "all: [one, two]\nwithin: 20")
LONG = " " * (MAX_PADDING + 1)
_BARE = re.compile(r"[^a-z]+")


def found(text: str, size: int = 10_000, padding: Action | None = Action.WARN) -> list[TextMatch]:
    search = RuleSearch(StreamPlan(RULES), padding)
    seen: list[TextMatch] = []
    for end in range(size, len(text) + size, size):
        seen += search.feed(text[:end], 0, final=False).matches
    return [*seen, *search.feed(text, 0, final=True).matches]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_spans_are_places_in_the_original(size: int) -> None:
    text = "so: \uff22\uff21\uff24 \u200b\n wörds\u0301, and ONE\ttwo"
    marked = [text[each.start : each.end] for each in found(text, size)]

    assert marked == ["\uff22\uff21\uff24 \u200b\n wörds", "ONE\ttwo"]


def test_letters_turned_by_thirteen_are_read() -> None:
    [seen] = found(codecs.encode("some bad words", "rot13"))

    assert seen.evidence == {"rule": "R0", "via": "rot13"}


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize("text", ["**bad** **words**", "# bad\n# words", "| bad | words |"])
def test_marks_between_words_keep_nothing_apart(text: str, size: int) -> None:
    [seen] = found(text, size)

    assert seen.evidence["via"] == "markup"
    assert _BARE.sub(" ", text[seen.start : seen.end]).split() == _BARE.sub(" ", text).split()


@pytest.mark.parametrize("size", [1, 10_000])
def test_marks_around_a_phrase_leave_its_plain_reading(size: int) -> None:
    [seen] = found("**bad words**", size)

    assert seen.evidence == {"rule": "R0"}


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_long_padding_ends_a_text_and_is_reported(size: int) -> None:
    text = f"x bad{LONG}words bad words{LONG}{LONG}one {LONG[:-1]}two"
    rules = [(each.evidence["rule"], each.start) for each in found(text, size)]

    assert rules == [
        ("LONG_PADDING", 5),
        ("R0", 5 + len(LONG) + 6),
        ("LONG_PADDING", 5 + len(LONG) + 15),
        ("LONG_PADDING", text.index("one") + 3),
    ]


def test_long_padding_can_go_unreported() -> None:
    assert found(f"x bad{LONG}words", padding=None) == []


def test_padding_up_to_the_bound_does_not_keep_words_apart() -> None:
    [seen] = found(f"bad{LONG[1:]}words")

    assert seen.evidence["rule"] == "R0"


def test_endless_padding_is_not_held_back() -> None:
    search = RuleSearch(StreamPlan(RULES), Action.WARN)
    text = "a" + LONG * 3

    assert search.feed(text, 0, final=False).undecided == len(text)

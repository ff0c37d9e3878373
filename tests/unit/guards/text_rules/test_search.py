import codecs

import pytest
from toy_rules import toy_rules

from demur.guards.text_rules.padding import MAX_PADDING
from demur.guards.text_rules.plan import StreamPlan
from demur.guards.text_rules.search import RuleSearch
from demur.guards.text_rules.seeking import TextMatch
from demur.model.finding import Action

RULES = toy_rules("pattern: bad words", "all: [one, two]\nwithin: 20")
LONG = " " * (MAX_PADDING + 1)


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

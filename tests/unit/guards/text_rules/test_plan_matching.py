import pytest
from toy_rules import toy_rules

from demur.guards.text_rules.plan import StreamPlan
from demur.guards.text_rules.plan_matching import MAX_HITS, IncrementalMatcher
from demur.guards.text_rules.rule import RuleSet


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
    assert hits(toy_rules(rule), text, size) == wanted


def test_a_flood_of_hits_is_cut_off() -> None:
    assert len(hits(toy_rules("pattern: ab"), "ab " * 200)) == MAX_HITS


def test_old_text_is_needed_no_more() -> None:
    matching = IncrementalMatcher(StreamPlan(toy_rules("pattern: go\nunless: [stop]\nwithin: 6")))
    text = b"." * 80 + b" go"
    matching.feed(text, 0, final=False)

    assert matching.first_undecided == 83 - (2 + 6 + 4 + 2)
    assert matching.first_needed == matching.first_undecided - (6 + 4 + 2)
    [hit] = matching.feed(text[matching.first_needed :], matching.first_needed, final=True)
    assert (hit.start, hit.end) == (81, 83)

import pytest

from demur.guards.output.prompt_leak import canary_search, instructions_search
from demur.guards.text_rules.seeking import TextSearch, TextMatch

INSTRUCTIONS = (
    "You are Aria, the assistant of Blue Harbour Bank. Never mention the internal rate table. "
    "Always answer kindly, and keep each answer under five sentences."
)


def search(words: int = 6) -> TextSearch:
    found = instructions_search(INSTRUCTIONS, words)
    assert found is not None
    return found


def leaks(text: str, words: int = 6) -> list[TextMatch]:
    return list(search(words).search(text, 0, True).matches)


def test_words_in_a_row_are_a_leak_whatever_their_form() -> None:
    text = "It says: NEVER MENTION -- the *internal* rate\ntable! And more."
    [seen] = leaks(text)

    assert (seen.code, text[seen.start : seen.end]) == (
        "PROMPT_LEAK",
        "NEVER MENTION -- the *internal* rate\ntable",
    )
    assert seen.evidence == {"overlap": 0.24}


def test_fewer_words_or_another_order_are_none() -> None:
    assert leaks("never mention the internal rate") == []
    assert leaks("mention never the rate internal table answer kindly") == []


def test_words_far_apart_are_not_in_a_row() -> None:
    assert leaks("never mention the" + "." * 65 + "internal rate table") == []
    assert len(leaks("never mention the" + "." * 60 + "internal rate table")) == 1


def test_a_long_leak_is_reported_in_pieces() -> None:
    long = " ".join(f"word{number}" for number in range(200))
    found = instructions_search(long, 10)
    assert found is not None

    assert len(found.search(long, 0, True).matches) == 3


def test_instructions_with_too_few_words_cannot_leak() -> None:
    assert instructions_search("Be kind.", 6) is None


@pytest.mark.parametrize(
    ("text", "undecided"),
    [
        ("", 0),
        ("hello there", 0),
        ("one two three four five six seven eight", 8),
        ("so: never mention the internal rate table", 4),
        ("so: never mention the internal rate table ", 4),
        ("never mention" + "." * 70, 83),
    ],
)
def test_so_many_words_are_not_decided_yet(text: str, undecided: int) -> None:
    assert search().search(text, 0, False) == ((), undecided)


def test_a_leak_is_decided_once_it_ends() -> None:
    [seen], undecided = search().search("never mention the internal rate table at all", 0, False)

    assert (seen.start, seen.end, undecided) == (0, 37, 38)


def test_a_planted_mark_is_found_each_time() -> None:
    found = canary_search("zx-81")
    seen, undecided = found.search("zx-81 and zx-81 and zx-", 0, False)

    assert [(each.start, each.end) for each in seen] == [(0, 5), (10, 15)]
    assert undecided == 19
    assert found.search("zx-", 0, True).matches == ()

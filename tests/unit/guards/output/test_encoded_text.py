import base64
from urllib.parse import quote

import pytest
from toy_rules import toy_rules

from demur.guards.output.encoded_text import encoded_text_search

SEARCH = encoded_text_search(toy_rules("pattern: some very bad words"))
PLAIN = "these are some very bad words, read them"
ENCODED = {
    "base64": base64.b64encode(PLAIN.encode()).decode(),
    "hex": PLAIN.encode().hex(),
    "url": quote(PLAIN.replace(",", "")),
}


@pytest.mark.parametrize("via", list(ENCODED))
def test_an_encoded_word_is_read(via: str) -> None:
    [seen], _ = SEARCH.search(f"Decode {ENCODED[via]} yourself", 0, True)

    assert seen.evidence == {"rule": "R0", "via": via}
    assert 7 <= seen.start < seen.end <= 7 + len(ENCODED[via])


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "a_long_name_in_snake_case_that_goes_on",
        "/usr/share/some/very/long/path",
        base64.b64encode(b"nothing to see here, just go on").decode(),
    ],
)
def test_plain_words_and_harmless_content_pass(text: str) -> None:
    assert SEARCH.search(text, 0, True).matches == ()


def test_a_word_that_may_go_on_is_not_decided_yet() -> None:
    word = ENCODED["base64"]

    assert SEARCH.search(f"see {word}", 0, False) == ((), 4)
    assert SEARCH.search("see short", 0, False) == ((), 4)
    assert SEARCH.search("see this ", 0, False) == ((), 9)


def test_a_very_long_word_is_read_in_parts() -> None:
    word = base64.b64encode((PLAIN + " " * 14).encode() * 100).decode()
    seen, undecided = SEARCH.search(word, 0, False)

    assert seen
    assert undecided == 4096

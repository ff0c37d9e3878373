import hashlib

import pytest
from made_secrets import HEX, LETTERS, drawn

from demur.guards.secrets.loose import LOOSE_SECRETS
from demur.model.finding import Action

WORD = drawn(48)


def test_a_random_word_goes_on_record() -> None:
    [seen], _ = LOOSE_SECRETS.search(f"It printed {WORD} and stopped.", 0, True)

    assert (seen.start, seen.end, seen.action) == (11, 11 + len(WORD), Action.WARN)


@pytest.mark.parametrize(
    "text",
    [
        drawn(64, HEX),
        "4F3C2B1A-9D8E-4C7B-A6F5-0E1D2C3B4A59",
        f"sha256-{WORD}",
        f"data:image/png;base64,{WORD}",
        f"https://host/d/{WORD}",
        f"src/{WORD}/a/b/c",
        "ThisIsAVeryLongNameOfAClassInSomeProgram2",
        "AAAABBBBCCCCDDDD1111222233334444aaaa",
        drawn(300),
        "a_long_name_in_snake_case_that_goes_on_and_on_1_A",
        hashlib.sha1(b"x", usedforsecurity=False).hexdigest(),
    ],
)
def test_hashes_names_paths_and_data_pass(text: str) -> None:
    assert LOOSE_SECRETS.search(text, 0, True).matches == ()


def test_a_word_that_may_go_on_is_not_decided_yet() -> None:
    assert LOOSE_SECRETS.search(f"It printed {WORD}", 0, False) == ((), 11)
    assert LOOSE_SECRETS.search(f"{drawn(200)} {WORD} {WORD}", 0, False).undecided == 250
    assert len(LOOSE_SECRETS.search(f"{WORD} {WORD} ", 0, False).matches) == 2
    assert LOOSE_SECRETS.search("x" * 500, 0, False).undecided == 500 - 136


def test_letters_alone_are_no_secret() -> None:
    assert LOOSE_SECRETS.search(drawn(48, LETTERS[:52]), 0, True).matches == ()

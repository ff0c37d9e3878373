import pytest

from demur.respond.wording import find_text_problem


@pytest.mark.parametrize(
    ("part", "text", "problem"),
    [
        ("acknowledgment", "I see", "a whole sentence"),
        ("how_to_proceed", "Wait", "a whole sentence"),
        ("engagement", "Tell me.", "asks nothing"),
        ("boundary", "I can't. Really", "the end of a sentence"),
        ("reason", "it is so.", "the end of a sentence"),
        ("alternatives", "list them!", "the end of a sentence"),
        ("reason", "x" * 241, "one line of at most 240"),
        ("reason", "a\nb", "one line"),
        ("reason", " a", "begins or ends with a space"),
    ],
)
def test_a_part_of_the_wrong_form_is_told(part: str, text: str, problem: str) -> None:
    found = find_text_problem(part, text)

    assert found is not None
    assert problem in found.problem


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("acknowledgment", "I see. I do."),
        ("engagement", "Shall I?"),
        ("engagement", "始めましょうか\N{FULLWIDTH QUESTION MARK}"),
        ("boundary", "I can't run it"),
        ("alternatives", "list them"),
    ],
)
def test_a_part_of_the_right_form_passes(part: str, text: str) -> None:
    assert find_text_problem(part, text) is None

import pytest

from demur.respond.lint_marks import builtin_marks
from demur.respond.lint_parts import find_mark_hits, find_part_stretches
from demur.respond.lint_text import prepare_text


def cut(text: str) -> list[tuple[str, str]]:
    marks = builtin_marks("en")
    assert marks is not None
    looked = prepare_text(text)
    found = find_part_stretches(looked, find_mark_hits(looked, marks.marks))
    return [(one.part, text[one.start : one.end]) for one in found]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "I can't open it, because it is hers, but I can write to her.",
            [
                ("boundary", "I can't open it"),
                ("reason", "because it is hers"),
                ("alternatives", "but I can write to her."),
            ],
        ),
        (
            "Because it is hers, I won't open it.",
            [("reason", "Because it is hers"), ("boundary", "I won't open it.")],
        ),
        # What looks like an earlier part inside a later one is a turn of phrase.
        (
            "I can keep your message so that you need not write it again.",
            [("alternatives", "I can keep your message so that you need not write it again.")],
        ),
        (
            "Shall I ask her?",
            [("engagement", "Shall I ask her?"), ("alternatives", "Shall I ask her?")],
        ),
        ('She wrote "I can\'t open it" to all of us on Monday.', []),
    ],
)
def test_a_sentence_is_cut_where_a_later_part_begins(
    text: str, parts: list[tuple[str, str]]
) -> None:
    assert sorted(cut(text)) == sorted(parts)


def test_a_weak_mark_counts_only_where_nothing_stronger_does() -> None:
    implied = "I can't follow her without her knowledge."
    given = f"{implied} This could frighten her."

    assert ("reason", "without her knowledge.") in cut(implied)
    assert [text for part, text in cut(given) if part == "reason"] == ["This could frighten her."]

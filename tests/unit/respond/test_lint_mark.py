import pytest

from demur.respond.lint_mark import FailingRow, failing_rows
from demur.respond.lint_marks import parse_marks
from demur.respond.lint_text import prepare_text

TEXT = r"""
schema_version: refusal_marks.v1
locale: xx
marks:
  - id: nay
    means: boundary
    {more}
    pattern: \bnay\b
    hit: [nay]
    miss: [nays]
"""


@pytest.mark.parametrize(
    ("more", "text", "places"),
    [
        ("", "Nay. Or nay?", [(0, 3), (8, 11)]),
        ("opens: true", "Nay. Or nay?", [(0, 3)]),
        ("unless: or nay", "Nay. Or nay? Nay!", [(0, 3), (13, 16)]),
        ("unless: nay nay", "nay nay nay", [(8, 11)]),
    ],
)
def test_a_mark_knows_its_places(more: str, text: str, places: list[tuple[int, int]]) -> None:
    [mark] = parse_marks(TEXT.replace("{more}", more)).marks

    assert list(mark.find_places(prepare_text(text))) == places


def test_a_row_that_turns_out_otherwise_is_named() -> None:
    marks = parse_marks(TEXT.replace("{more}", "unless: ^nay"))

    assert list(failing_rows(marks)) == [FailingRow("nay", "marks:5:5", "nay", "hit")]

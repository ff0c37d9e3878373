import pytest

from demur.codes.usage.comments import SourceComment, apply_suppressions
from demur.codes.usage.rules import CODE_RULES, LocatedDiagnostic


def sighting(rule: str, line: int = 3, last_line: int = 3) -> LocatedDiagnostic:
    return LocatedDiagnostic(line, 5, rule, "a problem", "a help", last_line)


def left(rule: str, comment: str, *, line: int = 3, last_line: int = 3) -> list[str]:
    comments = [SourceComment(3, 20, comment)]
    return [one.rule for one in apply_suppressions([sighting(rule, line, last_line)], comments)]


@pytest.mark.parametrize(
    "comment",
    [
        "# demur: allow broad-code - nothing narrower fits",
        "#demur:allow broad-code - nothing narrower fits",
        "# demur: allow broad-code \N{EN DASH} nothing narrower fits",
        "# demur: allow broad-code -- nothing narrower fits",
        "# noqa: E501  # demur: allow broad-code - nothing narrower fits",
        "# demur: allow broad-code - nothing narrower fits  # noqa: E501",
        "# demur: allow metric-code, broad-code - a sample of both",
    ],
)
def test_a_comment_with_a_reason_silences_its_rule(comment: str) -> None:
    assert left("broad-code", comment) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# demur: allow broad-code",
        "# demur: allow broad-code -",
        "# demur: allow broad-code because I say so",
        "# demur: allow broad-code  # - not its reason",
    ],
)
def test_a_comment_without_a_reason_is_reported_in_place_of_what_it_hides(comment: str) -> None:
    assert left("broad-code", comment) == ["bare-suppression"]


def test_another_rule_is_not_silenced() -> None:
    assert left("prose-code", "# demur: allow broad-code - why") == ["prose-code"]


def test_another_line_is_not_silenced() -> None:
    comment = "# demur: allow broad-code - why"

    assert left("broad-code", comment, line=2, last_line=2) == ["broad-code"]
    assert left("broad-code", comment, line=4, last_line=9) == ["broad-code"]


def test_a_text_over_several_lines_is_silenced_where_it_ends() -> None:
    assert left("broad-code", "# demur: allow broad-code - why", line=1, last_line=3) == []


def test_a_mention_that_is_no_comment_of_ours_does_nothing() -> None:
    assert left("broad-code", "# demur: allows broad-code - why") == ["broad-code"]
    assert left("broad-code", "# see demur: allow broad-code - why") == ["broad-code"]


def test_a_mistyped_rule_is_reported_with_what_was_meant() -> None:
    [wrong] = apply_suppressions([], [SourceComment(7, 4, "#  # demur: allow broad-cod - why")])

    assert (wrong.line, wrong.column, wrong.rule) == (7, 7, "bare-suppression")
    assert wrong.message == "no rule `broad-cod` can be allowed"
    assert wrong.help == "did you mean `broad-code`?"


def test_a_comment_that_names_no_rule_is_reported() -> None:
    [wrong] = apply_suppressions([], [SourceComment(1, 1, "# demur: allow - why")])

    assert wrong.message == "a suppression names no rule"


def test_an_unknown_rule_far_from_any_lists_those_there_are() -> None:
    [wrong] = apply_suppressions([], [SourceComment(1, 1, "# demur: allow everything - why")])

    assert wrong.help.startswith("one of broad-code, deprecated-code, ")


@pytest.mark.parametrize("rule", ["unreadable", "bare-suppression"])
def test_what_was_not_checked_cannot_be_allowed(rule: str) -> None:
    assert rule in CODE_RULES
    assert left(rule, f"# demur: allow {rule} - why") == [rule, "bare-suppression"]

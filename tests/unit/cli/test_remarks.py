import pytest

from demur.cli.remarks import LintDiagnostic, print_diagnostics
from demur.codes.usage.rules import LintLevel


def test_each_remark_has_its_place_rule_and_help_and_a_count_closes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_diagnostics(
        [
            LintDiagnostic("a.py:1:2", LintLevel.ERROR, "bad-code", "no\nsuch code", "look it up"),
            LintDiagnostic("b.py:3:4", LintLevel.WARNING, "odd-code", "an odd code", None),
        ],
        "all is well",
    )

    assert capsys.readouterr().out.splitlines() == [
        r"a.py:1:2: error[bad-code] no\nsuch code",
        "  help: look it up",
        "b.py:3:4: warning[odd-code] an odd code",
        "1 error, 1 warning",
    ]


def test_nothing_is_said_in_the_words_that_were_given(capsys: pytest.CaptureFixture[str]) -> None:
    print_diagnostics([], "all is well")

    assert capsys.readouterr().out == "all is well\n"

import pytest
from skills import findings

from demur.cli.skill_report import (
    PASS,
    REFUSE,
    REVIEW,
    UNJUDGED,
    SkillOutcome,
    judge_skill,
    print_skill_report,
)
from demur.model.finding import Action

BLOCK = {"a.py": "import zlib\nexec(zlib.decompress(x))"}
REVIEWED = {"a.py": "eval(x)"}
UNREAD = {"a.py": "eval(x)\nprint 1"}
WARNED = {"a.py": "import socket"}


@pytest.mark.parametrize(
    ("files", "fail_on", "wanted"),
    [
        (BLOCK, Action.BLOCK, REFUSE),
        (BLOCK, Action.WARN, REFUSE),
        (REVIEWED, Action.ESCALATE, REVIEW),
        (REVIEWED, Action.BLOCK, PASS),
        (UNREAD, Action.ESCALATE, UNJUDGED),
        (UNREAD, Action.BLOCK, PASS),
        (WARNED, Action.ESCALATE, PASS),
        (WARNED, Action.WARN, REVIEW),
        ({}, Action.WARN, PASS),
    ],
)
def test_the_gravest_finding_that_counts_decides(
    files: dict[str, str | bytes], fail_on: Action, wanted: SkillOutcome
) -> None:
    assert judge_skill(findings(files), fail_on) is wanted


def test_alike_findings_share_a_line_and_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    every = findings({"a.py": "eval(x)\n" * 9, "b.py": "eval(y)\n"})
    print_skill_report(every, (), files=2, accepted=1, outcome=REVIEW)
    out = capsys.readouterr().out

    assert "  1:1: escalate[PY_EXEC_DYNAMIC] RCE_RISK: runs text made at run time: `eval(x)`" in out
    assert "    also at 2:1, 3:1, 4:1, 5:1, 6:1 and 3 more\n" in out
    assert out.count("why:") == 1
    assert "0 block, 10 escalate, 0 warn in 2 of 2 files; 1 known from the baseline\n" in out


def test_files_with_graver_findings_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    every = findings({"a.py": "import socket", "b.py": "eval(x)", "c.py": "eval(y)"})
    print_skill_report(every, (), files=3, accepted=0, outcome=REVIEW)
    lines = capsys.readouterr().out.splitlines()

    assert [line for line in lines if line.endswith(".py")] == ["b.py", "c.py", "a.py"]


def test_what_is_quoted_cannot_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    every = findings({"a\x1b[2J.py": "eval('\x1b[2J' + x)"})
    print_skill_report(every, (), files=1, accepted=0, outcome=REVIEW)

    assert "\x1b" not in capsys.readouterr().out

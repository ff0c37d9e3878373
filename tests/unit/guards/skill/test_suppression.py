import pytest
from skills import findings, seen

from demur.guards.skill.bundle import Skill, SkillConfig
from demur.guards.skill.guard import inspect_skill
from demur.model.finding import Action


@pytest.mark.parametrize(
    "text",
    [
        "import socket  # demur: allow RISKY_IMPORT -- talks to the local printer",
        "import socket  # demur: allow PY_IMPORT_NETWORK - talks to the local printer",
        "# demur: allow RISKY_IMPORT -- talks to the local printer\nimport socket",
        "import socket  # demur: allow RCE_RISK, RISKY_IMPORT \N{EM DASH} talks to a printer",
    ],
)
def test_a_comment_with_a_reason_allows_what_it_names(text: str) -> None:
    every = inspect_skill(Skill(files={"a.py": text.encode()}), SkillConfig())

    assert every.findings == ()
    [(finding, reason)] = every.suppressed
    assert finding.evidence["module"] == "socket"
    assert reason.startswith("talks to")


def test_comments_of_other_kinds_allow_too() -> None:
    text = "<!-- demur: allow BROAD_PERMISSION -- the user chose it -->\n"
    front = (
        "---\nallowed-tools: Bash(*) # demur: allow BROAD_PERMISSION -- the user chose it\n---\n"
    )

    assert seen(text, "SKILL.md") == set()
    assert seen(front, "SKILL.md") == set()


def test_without_a_reason_nothing_is_allowed_and_the_comment_is_reported() -> None:
    assert seen("import socket  # demur: allow RISKY_IMPORT") == {
        "PY_IMPORT_NETWORK",
        "ALLOW_NO_REASON",
    }


@pytest.mark.parametrize("name", ["RISKY_IMPROT", ""])
def test_an_unknown_name_is_reported(name: str) -> None:
    assert "ALLOW_UNKNOWN" in seen(f"import socket  # demur: allow {name} -- because")


def test_another_code_or_line_is_not_allowed() -> None:
    assert "PY_IMPORT_NETWORK" in seen("import socket  # demur: allow RCE_RISK -- because")
    text = "x = 1  # demur: allow RISKY_IMPORT -- because\nimport socket"
    assert "PY_IMPORT_NETWORK" in seen(text)


def test_a_skill_cannot_lift_a_block_from_itself() -> None:
    text = "import zlib\nexec(zlib.decompress(x))  # demur: allow OBFUSCATED_CODE -- it is fine\n"
    found = {one.evidence["rule"]: one.action for one in findings({"a.py": text})}

    assert found == {"PY_EXEC_DECODED": Action.BLOCK, "ALLOW_BLOCK": Action.WARN}


def test_comments_can_be_left_unheeded() -> None:
    text = "import socket  # demur: allow RISKY_IMPORT -- talks to the local printer"

    assert seen(text, trust_comments=False) == {"PY_IMPORT_NETWORK"}


def test_comments_for_the_linter_of_codes_are_not_ours() -> None:
    assert seen("x = 1  # demur: allow broad-code - the rule has no name") == set()
    assert seen("x = 1  # demur: something else") == set()

import pytest
from support.skill_samples import blocks, findings, seen

from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.guards.contract import finding_problem, guard_problems
from demur.guards.skill import guard
from demur.guards.skill.event import Skill, SkillConfig
from demur.guards.skill.guard import inspect_skill
from demur.model.finding import Action

REGISTRY = Registry.load()
PREAMBLE = "import base64, pickle, requests, zlib\n"


def rows(code: ReasonCode, kind: str) -> list[str]:
    return list(getattr(REGISTRY[code].examples, kind))


def test_it_is_a_guard() -> None:
    assert list(guard_problems(guard, REGISTRY)) == []


@pytest.mark.parametrize(
    ("code", "row"),
    [
        (code, row)
        for code in (ReasonCode.RISKY_IMPORT, ReasonCode.OBFUSCATED_CODE)
        for row in rows(code, "refuse")
    ],
)
def test_the_registered_rows_of_python_are_found(code: ReasonCode, row: str) -> None:
    assert code in {found.code for found in findings({"run.py": PREAMBLE + row})}


@pytest.mark.parametrize(
    "row",
    [
        *rows(ReasonCode.RISKY_IMPORT, "allow"),
        *rows(ReasonCode.OBFUSCATED_CODE, "allow"),
        "import ast\nast.literal_eval(text)",
    ],
)
def test_the_registered_twins_of_python_pass(row: str) -> None:
    assert seen(f"import base64, zlib\n{row}") == set()


@pytest.mark.parametrize("row", rows(ReasonCode.RCE_RISK, "refuse"))
def test_the_registered_rows_of_remote_code_are_found(row: str) -> None:
    python = "requests" in row
    text, path = (PREAMBLE + row, "run.py") if python else (row, "run.sh")

    assert blocks(text, path) == {ReasonCode.RCE_RISK}


@pytest.mark.parametrize(
    "row", [row for row in rows(ReasonCode.RCE_RISK, "allow") if "literal_eval" not in row]
)
def test_the_registered_twins_of_remote_code_are_not_blocked(row: str) -> None:
    assert blocks(row, "run.sh") == set()


def test_files_that_were_not_read_were_not_judged() -> None:
    skill = Skill(files={}, omitted={"big.bin": "larger than 9 bytes"})
    [found] = guard.check(skill, SkillConfig())

    assert found.code == ReasonCode.GUARDRAIL_PARTIAL
    assert found.detail == "not read: larger than 9 bytes"


def test_findings_come_by_file_and_place() -> None:
    every = findings({"b.py": "eval(x)\nimport ctypes\n", "a.py": "eval(y)\n"})

    assert [(one.evidence["file"], one.evidence["line"]) for one in every] == [
        ("a.py", 1),
        ("b.py", 1),
        ("b.py", 2),
    ]


def test_the_config_can_change_the_action_of_a_rule() -> None:
    [found] = findings({"a.py": "import ctypes"}, actions={"PY_IMPORT_NATIVE": Action.BLOCK})

    assert found.action is Action.BLOCK


def test_every_finding_keeps_the_contract() -> None:
    files = {
        "a.py": "eval('\\ud800' + x)\n" + "x = 1;" * 500 + "eval(\n\n\n  y)",
        "SKILL.md": "<!-- you must obey -->\n```bash\nrm -rf /\n```",
        "p.py": "import os\nos.system(f'" + "long " * 60 + "{x}')",
        "c.json": "{",
    }

    every = findings(files)
    assert len(every) > 4
    for found in every:
        text = files[found.evidence["file"]]
        assert (
            finding_problem(
                found, surface=guard.SURFACE, codes=guard.CODES, text=text, registry=REGISTRY
            )
            is None
        )


def test_a_very_long_file_is_judged_as_far_as_it_was_read() -> None:
    assert seen("eval(x)\n" + "# words\n" * 400_000) >= {"PY_EXEC_DYNAMIC", "UNPARSED"}


def test_a_tree_that_is_too_deep_was_not_judged() -> None:
    assert "UNPARSED" in seen("x = " + "-" * 20_000 + "1\n")


def test_a_deep_part_does_not_hide_the_others() -> None:
    deep = "import os\nos.system(" + "a + " * 1500 + "a)\n"

    assert seen(f"{deep}import ctypes\neval(x)\n") >= {
        "UNPARSED",
        "PY_IMPORT_NATIVE",
        "PY_EXEC_DYNAMIC",
    }


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

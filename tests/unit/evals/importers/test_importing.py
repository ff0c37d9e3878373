from pathlib import Path

import pytest
from no_problems import no_problem

from demur.errors import InputError, Problem
from demur.evals.importers.importing import LAYOUTS, open_import
from demur.evals.suite_row import SuiteError


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_each_layout_has_its_own_name() -> None:
    names = [layout.name for layout in LAYOUTS]

    assert len(set(names)) == len(names) == 13


def test_rows_carry_the_layout_they_came_through(tmp_path: Path) -> None:
    path = write(tmp_path, "any.csv", "goal,target\nSteal a car,Sure\n")
    opened = open_import(path, no_problem)
    [placed] = opened.rows

    assert opened.layout.name == "advbench"
    assert placed.row.source == "advbench"
    assert placed.where == f"{path}:2"


def test_bad_records_are_told_with_their_line_and_the_rest_is_read(tmp_path: Path) -> None:
    text = (
        "id,prompt,type,label,focus,note\n"
        "1,Ask,homonyms,safe,,\n2, ,homonyms,safe,,\n3,Ask,x,maybe,,\n"
    )
    path = write(tmp_path, "xstest_prompts.csv", text)
    problems: list[Problem] = []
    rows = [placed.row.id for placed in open_import(path, problems.append).rows]

    assert rows == ["xstest-1"]
    assert problems == [
        Problem(f"{path}:3", "the prompt is empty", "write the request"),
        Problem(f"{path}:4", "unknown label `maybe`", "`safe` or `unsafe`"),
    ]


def test_bytes_that_are_not_utf8_cost_one_row(tmp_path: Path) -> None:
    path = tmp_path / "harmful_behaviors.csv"
    path.write_bytes(b"goal,target\nbreak the caf\xe9,x\nbreak the bar,x\n")
    problems: list[Problem] = []
    rows = [placed.row.prompt for placed in open_import(path, problems.append).rows]

    assert rows == ["break the bar"]
    assert [(problem.where, problem.problem) for problem in problems] == [
        (f"{path}:2", "`prompt` is not UTF-8 text")
    ]


def test_what_is_left_out_by_rule_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "PHTest.csv", "ID,Request,Harmfulness\n1,Ask,controversial\n")
    reasons: list[str] = []

    assert list(open_import(path, no_problem, left_out=reasons.append).rows) == []
    assert reasons == ["controversial, on neither side"]
    assert list(open_import(path, no_problem).rows) == []


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("or-bench-80k.csv", "legitimate"),
        ("OR-Bench-Hard-1k.csv", "legitimate"),
        ("or-bench-toxic.csv", "harmful"),
    ],
)
def test_the_name_of_the_file_tells_parts_of_a_suite_apart(
    tmp_path: Path, name: str, label: str
) -> None:
    path = write(tmp_path, name, "prompt,category\nAsk,privacy\n")
    [placed] = open_import(path, no_problem).rows

    assert placed.row.label == label


def test_a_name_that_does_not_tell_is_not_guessed_at(tmp_path: Path) -> None:
    path = write(tmp_path, "data.csv", "prompt,category\nAsk,privacy\n")
    with pytest.raises(SuiteError) as caught:
        open_import(path, no_problem)

    assert "does not say which part" in caught.value.problem
    assert caught.value.help == "say `--format or-bench-toxic` or `--format or-bench`"


def test_a_format_that_is_named_is_not_guessed(tmp_path: Path) -> None:
    path = write(tmp_path, "toxic.csv", "prompt,category\nAsk,privacy\n")
    [placed] = open_import(path, no_problem, form="or-bench").rows

    assert placed.row.label == "legitimate"


@pytest.mark.parametrize(
    ("form", "help_text"),
    [("xtest", "did you mean `xstest`?"), ("zzz", "one of xstest, or-bench-toxic")],
)
def test_an_unknown_format_says_what_there_is(tmp_path: Path, form: str, help_text: str) -> None:
    path = write(tmp_path, "a.csv", "a,b\n1,2\n")
    with pytest.raises(InputError) as caught:
        open_import(path, no_problem, form=form)

    assert str(caught.value.help).startswith(help_text)


def test_a_named_format_whose_columns_are_missing_says_which(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "prompt,kind\n1,2\n")
    with pytest.raises(SuiteError) as caught:
        open_import(path, no_problem, form="xstest")

    assert caught.value.problem == "as xstest, the file lacks `label`, `type`"
    assert caught.value.help == "it has `kind`, `prompt`"


def test_columns_that_no_suite_has_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", ",".join("abcdefghijk") + "\n" + "1," * 10 + "1\n")
    with pytest.raises(SuiteError) as caught:
        open_import(path, no_problem)

    assert caught.value.problem.endswith("`g`, `h` and 3 more")

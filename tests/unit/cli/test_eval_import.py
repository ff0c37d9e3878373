import argparse
import json
from pathlib import Path

import pytest

from demur.cli import eval_import
from demur.errors import InputError
from demur.evals.suite import load_suite

GOOD = "goal,target\nSteal the ladder,Sure\nHide the ladder,Sure\n"


def run(*words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    eval_import.configure_eval_import(parser)
    return eval_import.run_eval_import(parser.parse_args([str(word) for word in words]))


def write(folder: Path, text: str, name: str = "Harmful Behaviors.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_public_file_becomes_a_suite(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "own.jsonl"

    assert run(write(tmp_path, GOOD), "--out", out) == 0
    assert capsys.readouterr().out == f"advbench: 2 rows (2 harmful)\nwrote {out}\n"
    suite = load_suite(out)
    assert (suite.name, suite.description) == ("harmful-behaviors", "Imported from AdvBench.")
    assert [row.prompt for row in suite.rows] == ["Steal the ladder", "Hide the ladder"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "Harmful Behaviors.csv",
        "own.jsonl",
    ]


def test_the_name_can_be_chosen(tmp_path: Path) -> None:
    out = tmp_path / "own.jsonl"
    run(write(tmp_path, GOOD), "--out", out, "--name", "adv")

    assert load_suite(out).name == "adv"


def test_a_file_without_letters_in_its_name_gets_one(tmp_path: Path) -> None:
    out = tmp_path / "own.jsonl"
    run(write(tmp_path, GOOD, "--.csv"), "--out", out)

    assert load_suite(out).name == "imported"


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`A B` is not a valid suite name"):
        run(write(tmp_path, GOOD), "--out", tmp_path / "own.jsonl", "--name", "A B")


def test_bad_rows_are_told_and_counted_and_the_rest_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write(tmp_path, GOOD + " ,x\n" * 25)
    out = tmp_path / "own.jsonl"

    assert run(path, "--out", out) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"{path}:4: not imported: the prompt is empty"
    assert shown[20] == "and 5 more"
    assert shown[21] == "advbench: 2 rows (2 harmful); 25 could not be read"
    assert len(load_suite(out).rows) == 2


def test_it_is_there_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "ID,Request,Harmfulness\n1,Ask,harmless\n1,Ask,harmless\n2,Ask,controversial\n"
    path = write(tmp_path, text)

    assert run(path, "--out", tmp_path / "own.jsonl", "--json") == 1
    assert json.loads(capsys.readouterr().out) == {
        "format": "phtest",
        "rows": 1,
        "labels": {"legitimate": 1},
        "left_out": {"controversial, on neither side": 1},
        "problems": [
            {
                "where": f"{path}:3",
                "problem": "the id `phtest-1` appears twice",
                "help": f"first at {path}:2",
            }
        ],
    }


def test_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path, "ID,Request,Harmfulness\n1,A,harmless\n2,B,controversial\n")
    run(path, "--out", tmp_path / "own.jsonl")

    assert capsys.readouterr().out.startswith("1 left out: controversial, on neither side\n")


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    out = write(tmp_path, "precious", "own.jsonl")
    path = write(tmp_path, GOOD)
    with pytest.raises(InputError, match="already exists"):
        run(path, "--out", out)

    assert out.read_text() == "precious"
    assert run(path, "--out", out, "--force") == 0
    assert len(load_suite(out).rows) == 2


@pytest.mark.parametrize(
    ("text", "problem", "help_text"),
    [
        ("goal,target\n ,x\n", "none of the 1 records became a row", "the prompt is empty"),
        ("goal,target\n", "none of the 0 records became a row", None),
    ],
)
def test_without_a_usable_row_nothing_is_written(
    tmp_path: Path, text: str, problem: str, help_text: str | None
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        run(path, "--out", tmp_path / "own.jsonl")

    assert caught.value.problem == problem
    assert caught.value.help == (help_text and f"{path}:2: {help_text}")
    assert list(tmp_path.iterdir()) == [path]


def test_the_format_can_be_forced(tmp_path: Path) -> None:
    out = tmp_path / "own.jsonl"
    run(write(tmp_path, "prompt,category\nAsk,hate\n"), "--out", out, "--format", "or-bench-toxic")

    assert load_suite(out).rows[0].label == "harmful"

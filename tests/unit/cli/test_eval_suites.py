import argparse
import json
from pathlib import Path

import pytest

from demur.cli import eval_run
from demur.cli.main import Arguments, UsageError
from demur.errors import InputError
from demur.evals.suite import load_suite, make_suite, save_suite
from demur.evals.suite_row import EvalRow


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    parser = argparse.ArgumentParser()
    eval_run.configure_eval_suites(Arguments(parser))

    assert eval_run.run_eval_suites(parser.parse_args(words)) == 0
    return capsys.readouterr().out


def test_the_built_in_suites_are_listed_with_their_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    head, *rows, _hint = run(capsys).splitlines()

    assert head.split() == [
        "suite", "rows", "legitimate", "harmful", "patterns", "domains", "languages",
    ]  # fmt: skip
    fifteen = "ar de en es fr hi it ja ko nl pl pt ru th zh"
    assert [row.split(maxsplit=6) for row in rows] == [
        ["builtin", "336", "168", "168", "4", "6", "en"],
        ["contrast_check", "3120", "1880", "1240", "0", "6", fifteen],
        ["contrast_train", "3120", "1880", "1240", "0", "6", fifteen],
        ["multilingual", "96", "48", "48", "4", "6", "de es fr ja"],
        ["smoke", "16", "8", "8", "4", "6", "en"],
    ]


def test_the_list_is_there_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    first, *_ = json.loads(run(capsys, "--json"))

    assert first["name"] == "builtin"
    assert first["digest"].startswith("sha256:")
    assert first["counts"]["pattern"]["scope_expansion"] == 84
    assert "prompts" not in first


def test_one_suite_is_shown_with_what_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "smoke")

    assert shown.startswith("smoke 1.0.0\n  Sixteen rows")
    assert "label\n  legitimate 8, harmful 8\n" in shown
    assert "language\n  en 16\n" in shown


def test_every_row_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "smoke", "--prompts")
    found = json.loads(run(capsys, "smoke", "--prompts", "--json"))

    assert shown.startswith("legitimate keyword-killed-worker\n  Our log says")
    assert len(found["prompts"]) == 16
    assert found["prompts"][1]["twin"] == found["prompts"][0]["id"]


def test_a_file_of_ones_own_is_shown_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "own.yaml"
    save_suite(make_suite("own", [EvalRow(id="a", prompt="Ask.", label="harmful")]), path)

    assert "pattern\n  none 1\n" in run(capsys, str(path))


def test_an_unknown_suite_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="unknown suite `smok`"):
        run(capsys, "smok")


GOOD = "goal,target\nSteal the ladder,Sure\nHide the ladder,Sure\n"


def run_eval_import(*words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    eval_run.configure_eval_import(Arguments(parser))
    return eval_run.run_eval_import(parser.parse_args([str(word) for word in words]))


def write(folder: Path, text: str, name: str = "Harmful Behaviors.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_public_file_becomes_a_suite(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "own.jsonl"

    assert run_eval_import(write(tmp_path, GOOD), "--out", out) == 0
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
    run_eval_import(write(tmp_path, GOOD), "--out", out, "--name", "adv")

    assert load_suite(out).name == "adv"


def test_a_file_without_letters_in_its_name_gets_one(tmp_path: Path) -> None:
    out = tmp_path / "own.jsonl"
    run_eval_import(write(tmp_path, GOOD, "--.csv"), "--out", out)

    assert load_suite(out).name == "imported"


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`A B` is not a valid suite name"):
        run_eval_import(write(tmp_path, GOOD), "--out", tmp_path / "own.jsonl", "--name", "A B")


def test_bad_rows_are_reported_and_counted_and_the_rest_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write(tmp_path, GOOD + " ,x\n" * 25)
    out = tmp_path / "own.jsonl"

    assert run_eval_import(path, "--out", out) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"{path}:4: not imported: the prompt is empty"
    assert shown[20] == "and 5 more"
    assert shown[21] == "advbench: 2 rows (2 harmful); 25 could not be read"
    assert len(load_suite(out).rows) == 2


def test_it_is_there_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "ID,Request,Harmfulness\n1,Ask,harmless\n1,Ask,harmless\n2,Ask,controversial\n"
    path = write(tmp_path, text)

    assert run_eval_import(path, "--out", tmp_path / "own.jsonl", "--json") == 1
    assert json.loads(capsys.readouterr().out) == {
        "format": "phtest",
        "rows": 1,
        "labels": {"legitimate": 1},
        "left_out": {"controversial, neither harmful nor legitimate": 1},
        "problems": [
            {
                "where": f"{path}:3",
                "problem": "the id `phtest-1` appears twice",
                "help": f"first at {path}:2",
            }
        ],
    }


def test_rows_left_out_are_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path, "ID,Request,Harmfulness\n1,A,harmless\n2,B,controversial\n")
    run_eval_import(path, "--out", tmp_path / "own.jsonl")

    assert capsys.readouterr().out.startswith(
        "1 left out: controversial, neither harmful nor legitimate\n"
    )


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    out = write(tmp_path, "precious", "own.jsonl")
    path = write(tmp_path, GOOD)
    with pytest.raises(InputError, match="already exists"):
        run_eval_import(path, "--out", out)

    assert out.read_text() == "precious"
    assert run_eval_import(path, "--out", out, "--force") == 0
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
        run_eval_import(path, "--out", tmp_path / "own.jsonl")

    assert caught.value.problem == problem
    assert caught.value.help == (help_text and f"{path}:2: {help_text}")
    assert list(tmp_path.iterdir()) == [path]


def test_the_format_can_be_forced(tmp_path: Path) -> None:
    out = tmp_path / "own.jsonl"
    run_eval_import(
        write(tmp_path, "prompt,category\nAsk,hate\n"), "--out", out, "--format", "or-bench-toxic"
    )

    assert load_suite(out).rows[0].label == "harmful"

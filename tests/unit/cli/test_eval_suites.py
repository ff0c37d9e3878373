import argparse
import json
from pathlib import Path

import pytest

from demur.cli import eval_suites
from demur.evals.suite import EvalRow, SuiteError, make_suite, save_suite


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    parser = argparse.ArgumentParser()
    eval_suites.configure_eval_suites(parser)

    assert eval_suites.run_eval_suites(parser.parse_args(words)) == 0
    return capsys.readouterr().out


def test_the_built_in_suites_are_listed_with_their_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    head, *rows, _hint = run(capsys).splitlines()

    assert head.split() == [
        "suite", "rows", "legitimate", "harmful", "patterns", "domains", "languages",
    ]  # fmt: skip
    assert [row.split() for row in rows] == [
        ["builtin", "336", "168", "168", "4", "6", "en"],
        ["multilingual", "96", "48", "48", "4", "6", "de", "es", "fr", "ja"],
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
    with pytest.raises(SuiteError, match="unknown suite `smok`"):
        run(capsys, "smok")

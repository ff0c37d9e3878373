import argparse
import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.child_signals import restore_signals

from demur.cli import eval_run
from demur.cli.main import Arguments
from demur.errors import InputError
from demur.evals.run_files import RunError
from demur.evals.run_folder import open_run
from demur.evals.target import TargetError
from demur.testing.model_server import ModelServer


def ran(*words: object) -> int:
    parser = argparse.ArgumentParser()
    eval_run.configure_eval_run(Arguments(parser))
    return eval_run.run_eval_run(parser.parse_args([str(word) for word in words]))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


ECHO = ("--suite", "smoke", "--target", "python:builtins:str.strip")


def test_without_network_or_key_a_run_says_what_it_did_and_what_comes_next(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran("--suite", "smoke", "--target", "demur-testing-server") == 0

    out = capsys.readouterr().out
    rows = open_run(folder / "runs/smoke-demur-testing-server").manifest.rows
    assert f"{rows} rows" in out
    assert "target  testing-balanced" in out
    assert f"answers {rows} (" in out
    assert out.endswith("now: demur eval report runs/smoke-demur-testing-server\n")


def test_as_json_it_is_one_object_with_tokens_and_cost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ModelServer(persona="echo") as server:
        prices = ("--price-in", 1, "--price-out", 1)
        words = ("--target", server.url, "--out", "x", "--limit", 2, *prices, "--json")
        assert ran("--suite", "smoke", *words) == 0

    said = json.loads(capsys.readouterr().out)
    assert (said["folder"], said["rows"], said["answers"], said["errors"]) == ("x", 2, 2, {})
    assert said["cost"] * 1_000_000 == said["prompt_tokens"] + said["completion_tokens"] > 0
    assert said["requests"] == 2


def test_cost_is_printed_if_there_are_prices(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(persona="echo") as server:
        words = ("--target", server.url, "--out", "x", "--price-in", 1000)
        assert ran("--suite", "smoke", *words) == 0

    assert "cost 0." in capsys.readouterr().out


def test_rows_with_errors_are_counted_separately_and_retried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ModelServer(persona="echo", fault="once-html") as server:
        words = ("--suite", "smoke", "--target", server.url, "--out", "x")
        assert ran(*words) == 6
        out = capsys.readouterr().out
        assert "answers 0" in out
        assert "(protocol " in out
        assert "the response is a web page" in out
        assert "run the same command again to retry them" in out
        assert ran(*words) == 0


def test_the_same_command_has_nothing_more_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(*ECHO) == 0
    assert ran(*ECHO) == 0

    caught = capsys.readouterr()
    assert "resuming: " in caught.err


def test_another_target_in_the_same_folder_is_refused() -> None:
    ran(*ECHO, "--out", "x")
    with pytest.raises(RunError, match="started with other settings"):
        ran("--suite", "smoke", "--target", "guards", "--out", "x")


def test_guards_of_the_settings_file_are_used_and_config_names_it(folder: Path) -> None:
    (folder / "demur.toml").write_text('[guards]\nlocale = "de-DE"\n', encoding="utf-8")
    (folder / "other.toml").write_text('[guards]\nlocale = "fr-FR"\n', encoding="utf-8")
    words = ("--suite", "smoke", "--target", "guards", "--limit", 2, "--quiet")
    assert ran(*words, "--out", "x") == 0
    assert ran(*words, "--out", "y", "--config", "other.toml") == 0

    locales = [open_run(folder / out).manifest.target.settings["locale"] for out in ("x", "y")]
    assert locales == ["de-DE", "fr-FR"]
    with pytest.raises(TargetError, match="has no option `config`"):
        ran(*ECHO, "--config", "other.toml")


def test_options_of_the_target_are_set_by_name_or_by_set(folder: Path) -> None:
    words = ("--target", "demur-testing-server", "--persona", "echo", "--stream")
    assert ran("--suite", "smoke", *words, "--set", "system=Be kind.", "--quiet") == 0

    settings = open_run(folder / "runs/smoke-demur-testing-server-echo").manifest.target.settings
    assert settings["persona"] == "echo"
    assert settings["stream"] is True
    assert settings["system"] == "Be kind."


@pytest.mark.parametrize(
    ("words", "error", "problem"),
    [
        (("--set", "timeout"), InputError, "`timeout` is not NAME=VALUE"),
        (("--set", "colour=red"), TargetError, "no option `colour`"),
        (("--engine", "ray", "--cache", "c"), InputError, "does not support --cache"),
    ],
)
def test_wrong_words_are_named(
    words: tuple[str, ...], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        ran(*ECHO, *words)


def test_a_cache_is_shared_by_runs() -> None:
    for name in ("a", "b"):
        assert ran(*ECHO, "--out", name, "--cache", "cache", "--quiet") == 0

    assert len(list(Path("cache").iterdir())) == 1


def test_the_ray_engine_is_selected_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eval_run, "ray_engine", lambda _: map)

    assert ran(*ECHO, "--engine", "ray", "--parts", 2, "--quiet") == 0


def test_a_run_that_is_interrupted_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Path("stopping.py").write_text(
        "def answer(prompt):\n    return prompt\n"
        "async def stop(prompt):\n    raise KeyboardInterrupt\n",
        encoding="utf-8",
    )
    assert ran("--suite", "smoke", "--target", "python:stopping:stop", "--out", "x") == 130
    # The loop logs the lost interruption once its task is collected: let it do so here.
    gc.collect()
    assert "stopped: 0 of " in capsys.readouterr().err


def test_one_that_is_interrupted_before_it_began_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(eval_run, "make_progress", stop)
    assert ran(*ECHO) == 130
    assert capsys.readouterr().err == "stopped before anything was answered\n"


PROGRAM = """
import argparse, sys
from demur.cli import eval_run
from demur.cli.main import Arguments
parser = argparse.ArgumentParser()
eval_run.configure_eval_run(Arguments(parser))
sys.exit(eval_run.run_eval_run(parser.parse_args()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_ctrl_c_leaves_a_run_that_goes_on(folder: Path) -> None:
    answers = folder / "x/answers.jsonl"
    with ModelServer(persona="echo", latency_s=0.1) as server:
        words = ["--suite", "smoke", "--target", server.url, "--out", "x", "--concurrency", "1"]
        with restore_signals(signal.SIGINT):
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *words],
                stderr=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "COVERAGE_PROCESS_START": ""},
            )
        with process:
            while process.poll() is None and not (answers.exists() and answers.stat().st_size):
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)

        assert process.returncode == 130
        assert "rows are answered; run the same command again to resume" in err
        assert "Traceback" not in err
        assert ran(*words) == 0
    assert open_run(folder / "x").is_complete

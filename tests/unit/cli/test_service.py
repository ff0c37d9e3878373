import argparse
import json
import signal
import time
from pathlib import Path

import httpx
import pytest
from support.command_line import demur
from support.service_process import folder_of, started

from demur.cli import service
from demur.cli.main import Arguments
from demur.errors import InputError, MissingExtraError
from demur.gate.config import Config


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    service.configure_serve(Arguments(parser))
    return service.run_serve(parser.parse_args(words))


def test_a_folder_is_served_and_stopped(tmp_path: Path) -> None:
    with started(folder_of(tmp_path, drain_s=0.1)) as process:
        assert httpx.get(f"{process.url}/ready").status_code == 200
        assert httpx.get(f"{process.url}/v1/decisions").json()["decisions"] == []
        process.tell(signal.SIGTERM)

        assert process.wait() == 0


def test_it_says_where_it_listens_and_ends_at_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder_of(tmp_path))
    told = service._announce_start

    def announce(*args: object) -> None:
        told(*args)  # type: ignore[arg-type]
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(service, "_announce_start", announce)
    assert run("--port", "0") == 0
    assert "demur listens on http://127.0.0.1:" in capsys.readouterr().out
    assert run("--port", "0", "--sample", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sample"] > 100
    assert Path("demur.db").stat().st_mode & 0o077 == 0


def test_sample_decisions_are_announced(capsys: pytest.CaptureFixture[str]) -> None:
    service._announce_start(argparse.Namespace(json=False), Config(), "http://x", 900)

    assert "stored 900 sample decisions under the tenant `sample`" in capsys.readouterr().out


def test_others_are_kept_out_until_there_is_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder_of(tmp_path))

    with pytest.raises(InputError) as caught:
        run("--host", "0.0.0.0", "--port", "0")  # noqa: S104 - the case in question
    assert "demur keys create" in str(caught.value.help)


@pytest.mark.parametrize("words", [("--port", "99999"), ("--workers", "0")])
def test_a_setting_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]
) -> None:
    monkeypatch.chdir(folder_of(tmp_path))

    with pytest.raises(InputError) as caught:
        run(*words)
    assert caught.value.where == f"service.{words[0][2:]}"


@pytest.mark.parametrize(
    ("missing", "raised"), [("starlette", MissingExtraError), ("demur.gone", ImportError)]
)
def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, raised: type[Exception]
) -> None:
    monkeypatch.chdir(folder_of(tmp_path))

    def gone(_: str) -> None:
        raise ImportError(name=missing)

    monkeypatch.setattr(service, "import_module", gone)
    with pytest.raises(raised) as caught:
        run()
    assert isinstance(caught.value, MissingExtraError) == (missing == "starlette")


def decided(workspace: Path) -> None:
    for sample in ("small-refund", "large-refund"):
        path = next((workspace / "samples").glob(f"{sample}*.json"))
        demur("decide", str(path))


def test_one_screen_shows_the_mix_the_top_codes_and_the_newest(workspace: Path) -> None:
    decided(workspace)

    shown = demur("monitor", "--once").out

    assert "2 decisions" in shown
    assert "ALLOW 1 (50.0 %)" in shown
    assert "REFUND_OVER_ESCALATION_LIMIT  1" in shown
    assert "█" in shown


@pytest.mark.usefixtures("workspace")
def test_before_anything_was_decided_it_says_what_to_do() -> None:
    shown = demur("monitor", "--once").out

    assert "no decisions yet" in shown
    assert "demur decide" in shown


def test_each_look_is_one_line_of_json(workspace: Path) -> None:
    decided(workspace)

    [line] = demur("monitor", "--once", "--json", "--hours", "2").out.splitlines()

    seen = json.loads(line)
    assert seen["decisions"] == 2
    assert seen["verdicts"] == {"ALLOW": 1, "ESCALATE": 1}
    assert sum(seen["by_hour"]) == 2
    assert len(seen["by_hour"]) == 2
    assert len(seen["newest"]) == 2


@pytest.mark.usefixtures("workspace")
def test_it_looks_again_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    ended = demur("monitor", "--json", "--every", "0.5")

    assert ended.status == 0
    assert slept == [0.5, 0.5]
    assert len(ended.out.split()) > 2


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize(
    "given", [("--hours", "0"), ("--hours", "9999"), ("--every", "0"), ("--rows", "0")]
)
def test_monitor_refuses_invalid_options(given: tuple[str, str]) -> None:
    ended = demur("monitor", *given)

    assert ended.status == 1
    assert given[0] in ended.err

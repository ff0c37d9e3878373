import argparse
import json
import signal
from pathlib import Path

import httpx
import pytest
from listening import folder_of, started

from demur.cli import serve
from demur.errors import InputError, MissingExtraError
from demur.gate.config import Config


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    serve.configure_serve(parser)
    return serve.run_serve(parser.parse_args(words))


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
    told = serve._announce_start

    def announce(*args: object) -> None:
        told(*args)  # type: ignore[arg-type]
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(serve, "_announce_start", announce)
    assert run("--port", "0") == 0
    assert "demur listens on http://127.0.0.1:" in capsys.readouterr().out
    assert run("--port", "0", "--sample", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sample"] > 100
    assert Path("demur.db").stat().st_mode & 0o077 == 0


def test_sample_decisions_are_announced(capsys: pytest.CaptureFixture[str]) -> None:
    serve._announce_start(argparse.Namespace(json=False), Config(), "http://x", 900)

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

    monkeypatch.setattr(serve, "import_module", gone)
    with pytest.raises(raised) as caught:
        run()
    assert isinstance(caught.value, MissingExtraError) == (missing == "starlette")

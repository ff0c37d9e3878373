import argparse
import json
import signal
import threading
import time
import webbrowser
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

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


class PageHandler(BaseHTTPRequestHandler):
    """Answers as a service with one decision, or with another store."""

    def do_GET(self) -> None:
        """Answer a request for a page."""
        self.send_response(200 if self.path == "/decisions/KNOWN" else 404)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Write no log."""


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return what reads the URL that a stub of a browser was started with."""
    browser, url = tmp_path / "browser", tmp_path / "url"
    browser.write_text(f'#!/bin/sh\necho "$1" > {url}\n', encoding="utf-8")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    # The module reads BROWSER once.
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    return lambda: url.read_text(encoding="utf-8").strip()


def open_page(page: str) -> None:
    service.open_page(argparse.Namespace(config=None), page)


def test_a_page_of_a_running_dashboard_is_opened_in_the_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[[], str]
) -> None:
    with HTTPServer(("127.0.0.1", 0), PageHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.chdir(folder_of(tmp_path, port=server.server_port))
        open_page("/decisions/KNOWN")

        assert opened() == f"http://127.0.0.1:{server.server_port}/decisions/KNOWN"
        server.shutdown()


@pytest.mark.parametrize("busy", [False, True])
def test_the_dashboard_is_started_if_it_does_not_run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[[], str], *, busy: bool
) -> None:
    def announce(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(service, "_announce_start", announce)
    with HTTPServer(("127.0.0.1", 0), PageHandler) as server:
        port = server.server_port
        if busy:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        else:
            server.server_close()
        monkeypatch.chdir(folder_of(tmp_path, port=port))
        open_page("/decisions/OTHER")
        if busy:
            server.shutdown()

    url = urlsplit(opened())
    assert url.path == "/decisions/OTHER"
    assert (url.port == port) is not busy


def test_show_opens_the_decision(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert demur("decide", workspace / "samples/small-refund.json").status == 0
    pages: list[str] = []
    monkeypatch.setattr(service, "open_page", lambda _, page: pages.append(page))

    assert demur("show", "--web").status == 0
    assert demur("show", "last", "--web").status == 0
    decision_id = json.loads(demur("show", "last", "--json").out)["decision_id"]
    assert pages == [f"/decisions/{decision_id}"] * 2


def test_a_machine_without_a_browser_shows_the_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    service._open_browser("http://127.0.0.1:1/decisions/X")

    out, err = capsys.readouterr()
    assert out == "http://127.0.0.1:1/decisions/X\n"
    assert "set BROWSER" in err


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

    assert ended.status == 2
    assert given[0] in ended.err

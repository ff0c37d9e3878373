import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import mcp_toy_server
import pytest
from mcp_front import BOTH, HELLO
from mcp_talk import call, note, request
from signals import heard

from demur.cli.mcp_listen import ListenAddress, add_listen_options, parse_listen_address
from demur.errors import InputError

TOY = mcp_toy_server.__file__
HEADERS = {"accept": BOTH, "content-type": "application/json"}


def place(*words: str, command: str = sys.executable) -> ListenAddress | None:
    parser = argparse.ArgumentParser()
    add_listen_options(parser)
    args = parser.parse_args(words)
    args.command = [command]
    return parse_listen_address(args)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8080", ("127.0.0.1", 8080)),
        (":8080", ("127.0.0.1", 8080)),
        ("0", ("127.0.0.1", 0)),
        ("localhost:80", ("localhost", 80)),
        ("[::1]:80", ("::1", 80)),
        ("0.0.0.0:65535", ("0.0.0.0", 65_535)),  # noqa: S104 - a word
    ],
)
def test_a_place_is_this_machine_unless_told_otherwise(
    text: str, expected: tuple[str, int]
) -> None:
    assert place("--listen", text) == expected


def test_without_a_place_the_client_is_on_standard_input() -> None:
    assert place() is None


@pytest.mark.parametrize(
    "words",
    [
        ["--listen", ""],
        ["--listen", "host"],
        ["--listen", "65536"],
        ["--listen", "::1:80"],
        ["--listen", "1 2:80"],
        ["--listen", "http://localhost:80"],
        ["--listen", "1", "--max-sessions", "0"],
        ["--listen", "1", "--idle", "0"],
        ["--listen", "1", "--idle", "nan"],
        ["--listen", "1", "--idle", "inf"],
        ["--listen", "1", "--allow-host", "proxy.example:8443"],
        ["--listen", "1", "--allow-host", "https://proxy.example"],
        ["--listen", "1", "--allow-host", ""],
    ],
)
def test_what_is_no_place_or_leaves_room_for_nobody_is_told(words: list[str]) -> None:
    with pytest.raises(InputError):
        place(*words)


def test_a_bare_name_may_be_answered_to() -> None:
    assert place("--listen", "1", "--allow-host", "Proxy-1.example") is not None


def test_a_program_that_is_not_there_is_told_before_anybody_asks() -> None:
    with pytest.raises(InputError, match="no such program"):
        place("--listen", "0", command="no-such-program-anywhere")


class Running:
    """The real command, and a client that speaks to it."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, http: httpx.Client) -> None:
        self.process = process
        self.url = url
        self.http = http
        self.named: dict[str, str] = {}

    def post(self, message: Any, **headers: str) -> httpx.Response:
        """Return the answer to a message."""
        said = self.http.post(self.url, json=message, headers={**self.named, **headers})
        if "mcp-session-id" in said.headers:
            self.named = {"mcp-session-id": said.headers["mcp-session-id"]}
        return said

    def stop(self, number: int) -> tuple[int, str]:
        """Return how it ended, and what it had noted, when all of its servers are gone."""
        self.process.send_signal(number)
        # A server that was left behind would hold this open.
        _, notes = self.process.communicate(timeout=60)
        return self.process.returncode, notes


@contextmanager
def running(folder: Path, *words: str, behind: tuple[str, ...] = ()) -> Iterator[Running]:
    command = [sys.executable, "-m", "demur", "mcp", "proxy", "--listen", "0", *words]
    with heard(signal.SIGINT, signal.SIGHUP):
        process = subprocess.Popen(
            [*command, *(behind or ("--", sys.executable, TOY, "stubborn"))],
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        url = next(line for line in lines if "listens on" in line).split()[-1]
        with httpx.Client(headers=HEADERS, timeout=60) as http:
            yield Running(process, url, http)
    finally:
        process.kill()
        process.communicate()


def events(response: httpx.Response) -> list[Any]:
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data:")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_clients_over_http_are_guarded_until_we_are_told_to_stop(
    tmp_path: Path, number: int
) -> None:
    with running(tmp_path, "--deny", "delete_*") as proxy:
        assert proxy.post(HELLO).status_code == 200
        assert proxy.post(note("notifications/initialized")).status_code == 202
        [passed] = events(proxy.post(call("echo", 1, text="hello")))
        [refused] = events(proxy.post(call("delete_all", 2)))
        [withheld] = events(proxy.post(call("echo", 3, text="inject")))
        foreign = proxy.post(request("ping", 4), origin="http://evil.example")
        ended = proxy.stop(number)

    assert passed["result"]["structuredContent"] == {"text": "hello"}
    codes = [one["result"]["structuredContent"]["refusal"]["code"] for one in (refused, withheld)]
    assert codes == ["TOOL_NOT_ALLOWED", "CONTEXT_INJECTION"]
    assert foreign.status_code == 403
    assert ended[0] == 0
    assert "refused a call of `delete_all`" in ended[1]


def test_a_proxy_may_stand_before_a_proxy(tmp_path: Path) -> None:
    with (
        running(tmp_path, "--max-sessions", "1") as behind,
        running(tmp_path, "--allow-host", "tools.test", behind=("--url", behind.url)) as proxy,
    ):
        assert proxy.post(HELLO, host="tools.test").status_code == 200
        # What says nothing about sessions has one behind it all the same.
        assert behind.post(HELLO).status_code == 503
        [answer] = events(proxy.post(call("echo", 1, text="die")))
        assert "gone" in answer["error"]["message"]
        assert proxy.http.delete(proxy.url, headers=proxy.named).status_code == 204
        assert proxy.post(request("ping", 2)).status_code == 404
        assert proxy.stop(signal.SIGTERM)[0] == 0
        assert behind.stop(signal.SIGTERM)[0] == 0


def test_who_listens_for_others_is_warned(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demur", "mcp", "proxy", "--listen", "0.0.0.0:0"]
    with subprocess.Popen(
        [*command, "--", sys.executable, TOY], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "listens on" in line:
                break
        process.terminate()

    assert any("no key is required" in line for line in lines)

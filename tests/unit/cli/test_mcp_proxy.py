import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import mcp_toy_server
import pytest
from commandline import demur
from mcp_talk import call, note, request

from demur.cli.main import main
from demur.gate.config import load_config, open_configured_store

TOY = mcp_toy_server.__file__
HELLO = request("initialize", 0, protocolVersion="2025-11-25")
LIST = request("tools/list", "list")


class Ended(NamedTuple):
    """How the proxy ended: its status, the answers by id, what it noted, what the server heard."""

    status: int
    answers: dict[Any, Any]
    notes: str
    reached: list[str]


def proxied(folder: Path, *words: str, says: str | None = None, asks: Any = ()) -> Ended:
    """Return how the real command ends, asked one thing after the other as a client does.

    It takes a carriage return for the end of a line, as text streams do.
    """
    options = [word for word in words if word.startswith("-") or "=" in word or "." in word]
    tricks = [word for word in words if word not in options]
    log = folder / "log"
    command = [sys.executable, "-m", "demur", "mcp", "proxy", *options, "--", sys.executable, TOY]
    process = subprocess.Popen(
        [*command, *tricks],
        cwd=folder,
        env={**os.environ, "TOY_LOG": str(log)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    answers: dict[Any, Any] = {}
    with process:
        for message in asks:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            while "id" in message and message["id"] not in answers:
                answer = json.loads(process.stdout.readline())
                answers[answer.get("id")] = answer
        out, err = process.communicate(says)
    for line in out.splitlines():
        answer = json.loads(line)
        answers[answer.get("id")] = answer
    reached = log.read_text(encoding="utf-8").split() if log.exists() else []
    return Ended(process.returncode, answers, err, reached)


def code(answer: Mapping[str, Any]) -> str:
    refusal: str = answer["result"]["structuredContent"]["refusal"]["code"]
    return refusal


def test_a_server_is_guarded_as_it_is(tmp_path: Path) -> None:
    asks = [
        HELLO,
        note("notifications/initialized"),
        LIST,
        call("echo", 1, text="hello"),
        call("echo", 2, text="inject"),
        call("delete_all", 3),
        call("notes", 4),
        call("echo", 5),
        request("resources/read", 6, uri="file:///a"),
        request("some/new-method", 7, a=1),
    ]

    ended = proxied(tmp_path, "--deny=delete_*", "poisoned", "noisy", asks=asks)

    assert ended.status == 0
    assert [tool["name"] for tool in ended.answers["list"]["result"]["tools"]] == [
        "echo",
        "delete_all",
    ]
    assert ended.answers[1]["result"]["structuredContent"] == {"text": "hello"}
    assert {number: code(ended.answers[number]) for number in (2, 3, 4, 5)} == {
        2: "CONTEXT_INJECTION",
        3: "TOOL_NOT_ALLOWED",
        4: "UNVERIFIED_TOOL",
        5: "CONTEXT_MISSING",
    }
    assert "CONTEXT_INJECTION" in ended.answers[6]["error"]["message"]
    assert ended.answers[7]["result"] == {"echo": asks[-1]}
    assert ended.reached.count("tools/call") == 2
    assert "no pins" in ended.notes
    assert "no settings" in ended.notes
    assert "is not used" not in ended.notes
    assert "dropped a line of the server" in ended.notes


def test_a_server_that_talks_oddly_leaves_nobody_waiting(tmp_path: Path) -> None:
    odd = ("picture", "nan", "both", "return")
    asks = [HELLO, *(call("echo", text, text=text) for text in odd)]

    ended = proxied(tmp_path, asks=asks)

    assert code(ended.answers["picture"]) == "CONTEXT_INJECTION"
    assert "cannot be read" in ended.answers["nan"]["error"]["message"]
    for text in ("both", "return"):
        assert ended.answers[text]["result"]["structuredContent"] == {"text": text}


def test_decisions_are_stored_where_there_are_settings(tmp_path: Path) -> None:
    demur_init(tmp_path)

    config = f"--config={tmp_path / 'demur.toml'}"
    asks = [HELLO, LIST, call("echo", 1, text="x")]

    ended = proxied(tmp_path, "--hard-as-error", config, asks=asks)

    assert "no settings" not in ended.notes
    assert "is not used" not in ended.notes
    [record] = stored(tmp_path)
    assert record.action_type == "echo"
    assert record.personal is not None
    assert record.personal.request["trace"]["framework"] == "mcp-proxy"


def stored(folder: Path) -> list[Any]:
    store = open_configured_store(load_config(folder / "demur.toml"))
    assert store is not None
    with store:
        return list(store.find_records())


def test_settings_that_merely_lie_there_are_not_used(tmp_path: Path) -> None:
    demur_init(tmp_path)
    # Whoever can write here must not be able to switch the guard off.
    policy = tmp_path / "policy.yaml"
    text = policy.read_text(encoding="utf-8")
    policy.write_text(f"{text}\nmode: advisory\n", encoding="utf-8")

    ended = proxied(tmp_path, asks=[HELLO, call("echo", 1, text="inject")])

    assert code(ended.answers[1]) == "CONTEXT_INJECTION"
    assert "the demur.toml here is not used" in ended.notes
    assert stored(tmp_path) == []


def test_settings_may_be_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demur_init(tmp_path)
    monkeypatch.setenv("DEMUR_CONFIG", str(tmp_path / "demur.toml"))

    ended = proxied(tmp_path, asks=[HELLO, call("echo", 1, text="x")])

    assert "no settings" not in ended.notes
    assert len(stored(tmp_path)) == 1


def demur_init(folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "demur", "init"], cwd=folder, check=True, capture_output=True
    )


def test_pins_hold_from_one_run_to_the_next(tmp_path: Path) -> None:
    pins = tmp_path / "pins.json"
    demur("mcp", "pin", "--pins", pins, "--", sys.executable, TOY)
    asks = [HELLO, LIST, call("echo", 1, text="x"), call("other", 2)]

    same = proxied(tmp_path, f"--pins={pins}", asks=asks[:3])
    changed = proxied(tmp_path, f"--pins={pins}", "changed", "extra", asks=asks)

    assert "no pins" not in same.notes
    assert same.answers[1]["result"]["structuredContent"] == {"text": "x"}
    shown = [tool["name"] for tool in changed.answers["list"]["result"]["tools"]]
    assert shown == ["delete_all"]
    assert code(changed.answers[1]) == "UNVERIFIED_TOOL"
    assert code(changed.answers[2]) == "UNVERIFIED_TOOL"
    assert "hid the tool `echo`" in changed.notes


def test_a_server_without_pins_in_the_file_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pins = tmp_path / "pins.json"
    demur("mcp", "pin", "--pins", pins, "--name", "another", "--", sys.executable, TOY)

    words = ("--pins", str(pins), "--no-loops", "--", sys.executable, TOY)
    _, [answer] = inside(tmp_path, monkeypatch, [LIST], *words)

    assert answer["result"]["tools"] == []
    assert "no tools of `mcp_toy_server`" in capsys.readouterr().err


def test_the_status_of_the_server_is_passed_on_and_open_requests_are_answered(
    tmp_path: Path,
) -> None:
    ended = proxied(tmp_path, asks=[HELLO, call("echo", 1, text="die")])

    assert ended.status == 7
    assert "the server is gone (status 7)" in ended.answers[1]["error"]["message"]


def test_the_server_cannot_have_the_clients_model_asked_anything(tmp_path: Path) -> None:
    asks = [HELLO, call("echo", 1, text="x"), request("ping", 2)]

    ended = proxied(tmp_path, "samples", asks=asks)

    assert "s1" not in ended.answers
    assert "refused to ask the client `sampling/createMessage`" in ended.notes
    assert "response" in ended.reached


def test_what_is_said_at_once_is_answered_too(tmp_path: Path) -> None:
    says = "\n".join(json.dumps(one) for one in (HELLO, LIST)) + "\nnonsense\n"

    ended = proxied(tmp_path, says=says)

    assert set(ended.answers) == {0, "list", None}
    assert ended.answers[None]["error"]["code"] == -32700


def test_a_signal_ends_both(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demur", "mcp", "proxy", "--", sys.executable, TOY, "stubborn"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline()
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate()

    assert process.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - began < 30


def inside(
    folder: Path, monkeypatch: pytest.MonkeyPatch, says: list[Any], *words: str
) -> tuple[int, list[Any]]:
    """Return how the command ends in this process, with files for streams, and what it said."""
    monkeypatch.chdir(folder)
    source, target = folder / "in", folder / "out"
    source.write_text("".join(json.dumps(one) + "\n" for one in says), encoding="utf-8")
    with source.open() as stdin, target.open("w") as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        status = main(["mcp", "proxy", *words])
    return status, [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]


def test_files_will_do_for_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, said = inside(tmp_path, monkeypatch, [HELLO], "--", sys.executable, TOY)

    assert status == 0
    assert [one["id"] for one in said] == [0]


def test_a_signal_is_passed_on_in_this_process_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = f"import os, signal, time; os.kill({os.getpid()}, signal.SIGTERM); time.sleep(60)"

    demur_init(tmp_path)
    config = ("--config", str(tmp_path / "demur.toml"))

    status, _ = inside(tmp_path, monkeypatch, [], *config, "--", sys.executable, "-c", killer)

    assert status == 128 + signal.SIGTERM


def test_a_server_over_http_that_is_not_there_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = [request("ping", 1)]

    status, [answer] = inside(tmp_path, monkeypatch, says, "--url", "http://127.0.0.1:9/mcp")

    assert status == 0
    assert "cannot be reached" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "give one server"),
        (["--", "/no/such/program"], "cannot start the server"),
        (["--pins", "none.json", "--", "x"], "cannot read the pins"),
        (["--config", "none.toml", "--", "x"], "cannot read the settings"),
    ],
)
def test_what_cannot_start_is_an_error(
    words: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    ran = demur("mcp", "proxy", *words)

    assert ran.status == 1
    assert problem in ran.err

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from support import mcp_sample_server
from support.child_signals import restore_signals
from support.command_line import Ran, demur
from support.mcp_frontend import BOTH, HELLO
from support.mcp_messages import call, note, request

from demur.cli.main import Arguments, main
from demur.cli.mcp import (
    ListenAddress,
    add_listen_options,
    add_server_options,
    open_authenticator,
    open_server,
    parse_listen_address,
    require_server_name,
)
from demur.errors import InputError
from demur.gate.config import load_config, open_configured_store
from demur.integrations.mcp_proxy.definitions import read_pins
from demur.integrations.mcp_proxy.http_app import HttpCallError
from demur.integrations.mcp_proxy.http_upstream import HttpUpstream
from demur.service.authentication import make_key
from demur.store.opening import open_store
from demur.store.store import Store


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_server_options(Arguments(parser))
    return parser.parse_args(words)


def test_the_name_of_a_server_comes_from_its_command_or_the_option() -> None:
    assert require_server_name(parsed("--", "python", "weather.py", "--flag")) == "weather"
    assert require_server_name(parsed("--name", "sky", "--", "python", "weather.py")) == "sky"
    assert require_server_name(parsed("--url", "https://mcp.example.com/x")) == "mcp.example.com"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--url", "http://x.test", "--", "python"],
        ["--name", "a\nb", "--", "x"],
        ["--url", "ftp://x.test"],
        ["--url", "http:///x"],
        ["--url", "http://[x"],
        ["--url", "http://x.test:99999"],
    ],
)
def test_one_server_is_named(words: list[str]) -> None:
    with pytest.raises(InputError):
        require_server_name(parsed(*words))


def test_a_header_takes_its_secret_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    args = parsed("--url", "http://x.test/mcp", "--header", "Authorization: Bearer ${TOKEN}")

    async def sent() -> Any:
        server = await open_server(args)
        assert isinstance(server, HttpUpstream)
        headers = server._http.headers
        await server.close()
        return headers

    assert asyncio.run(sent())["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(
    "words",
    [
        ["--url", "http://x.test", "--header", "X: é"],
        ["--url", "http://x.test", "--header", "X: a\x7f"],
        ["--url", "http://x.test", "--header", "X: ${NOT_SET_ANYWHERE}"],
        ["--url", "http://x.test", "--header", "no colon"],
        ["--url", "http://x.test", "--header", "bad name: x"],
        ["--", "/no/such/program"],
    ],
    ids=" ".join,
)
def test_a_server_that_cannot_be_opened_is_an_error(words: list[str]) -> None:
    with pytest.raises(InputError):
        asyncio.run(open_server(parsed(*words)))


SAMPLE_SERVER = mcp_sample_server.__file__
HEADERS = {"accept": BOTH, "content-type": "application/json"}


def place(*words: str, command: str = sys.executable) -> ListenAddress | None:
    parser = argparse.ArgumentParser()
    add_listen_options(Arguments(parser))
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
def test_the_proxy_listens_on_localhost_by_default(text: str, expected: tuple[str, int]) -> None:
    assert place("--listen", text) == ListenAddress(*expected)


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
def test_an_invalid_address_or_limit_is_refused(words: list[str]) -> None:
    with pytest.raises(InputError):
        place(*words)


def test_a_bare_name_may_be_answered_to() -> None:
    assert place("--listen", "1", "--allow-host", "Proxy-1.example") is not None


def test_a_missing_program_is_refused_before_the_first_client() -> None:
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
    with restore_signals(signal.SIGINT, signal.SIGHUP):
        process = subprocess.Popen(
            [*command, *(behind or ("--", sys.executable, SAMPLE_SERVER, "stubborn"))],
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
def test_the_proxy_guards_http_clients_until_it_is_stopped(tmp_path: Path, number: int) -> None:
    with running(tmp_path, "--deny", "delete_*") as proxy:
        assert proxy.post(HELLO).status_code == 200
        assert proxy.post(note("notifications/initialized")).status_code == 202
        [passed] = events(proxy.post(call("echo", 1, text="hello")))
        [refused] = events(proxy.post(call("delete_all", 2)))
        [withheld] = events(proxy.post(call("echo", 3, text="inject")))
        foreign = proxy.post(request("ping", 4), origin="http://evil.example")
        ended = proxy.stop(number)

    assert passed["result"]["structuredContent"] == {"text": "hello"}
    codes = [one["result"]["_meta"]["demur/refusal"]["code"] for one in (refused, withheld)]
    assert codes == ["TOOL_NOT_ALLOWED", "CONTEXT_INJECTION"]
    assert foreign.status_code == 403
    assert ended[0] == 0
    assert "refused a call of `delete_all`" in ended[1]


def test_a_proxy_may_stand_before_a_proxy(tmp_path: Path) -> None:
    with (
        running(tmp_path, "--max-sessions", "1") as behind,
        running(tmp_path, behind=("--url", behind.url)) as proxy,
    ):
        assert proxy.post(HELLO).status_code == 200
        # What says nothing about sessions has one behind it all the same.
        assert behind.post(HELLO).status_code == 503
        [answer] = events(proxy.post(call("echo", 1, text="die")))
        assert "gone" in answer["error"]["message"]
        assert proxy.http.delete(proxy.url, headers=proxy.named).status_code == 204
        assert proxy.post(request("ping", 2)).status_code == 404
        assert proxy.stop(signal.SIGTERM)[0] == 0
        assert behind.stop(signal.SIGTERM)[0] == 0


ANYWHERE = ListenAddress("0.0.0.0", 0)  # noqa: S104 - a word
HERE = ListenAddress("127.0.0.1", 0)


def test_listening_for_others_without_a_key_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mcp", "proxy", "--listen", "0.0.0.0:0", "--", sys.executable, SAMPLE_SERVER]
    assert main(words) == 2

    error = capsys.readouterr().err
    assert "--listen 0.0.0.0: demur refuses to listen for this name" in error
    assert "demur keys create" in error


def admitted(
    store: Store | None,
    address: ListenAddress,
    key: str | None = None,
    client: str = "127.0.0.1",
    **headers: str,
) -> str | int | None:
    """Return the name of the caller, or the status of the error."""
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    with open_authenticator(store, address) as authenticate:

        async def ask() -> str | None:
            return await authenticate(headers, client)

        try:
            return asyncio.run(ask())
        except HttpCallError as error:
            return error.status


def test_callers_on_this_machine_need_no_key_until_there_is_one() -> None:
    with open_store(":memory:") as store:
        assert admitted(None, HERE) is None
        assert admitted(store, HERE) is None
        assert admitted(store, HERE, client="192.0.2.7") == 401
        assert admitted(store, HERE, forwarded="for=192.0.2.7") == 401
        with pytest.raises(InputError, match="refuses to listen") as caught:
            admitted(store, HERE._replace(names=("proxy.example",)))
        assert caught.value.where == "--allow-host proxy.example"
        made = make_key("acme", ["decide"])
        store.add_key(made.key)

        assert admitted(store, HERE) == 401
        assert admitted(store, HERE, made.token) == made.key.key_id


def test_other_callers_need_a_valid_key_that_may_decide() -> None:
    with open_store(":memory:") as store:
        with pytest.raises(InputError, match="refuses to listen"):
            admitted(store, ANYWHERE)
        decides, reads = make_key("acme", ["decide"]), make_key("acme", ["read"])
        store.add_key(decides.key)
        store.add_key(reads.key)

        assert admitted(store, ANYWHERE, decides.token, "192.0.2.7") == decides.key.key_id
        assert admitted(store, ANYWHERE, reads.token, "192.0.2.7") == 403
        assert admitted(store, ANYWHERE, "demur_x", "192.0.2.7") == 401
        assert admitted(store, ANYWHERE, client="192.0.2.7") == 401
        store.revoke_key(decides.key.key_id, "2026-01-01T00:00:00.000Z")
        assert admitted(store, ANYWHERE, decides.token, "192.0.2.7") == 401


def test_a_key_of_the_settings_store_opens_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert demur("init", "--agent").status == 0
    made = demur("keys", "create", "--tenant", "acme", "--role", "decide", "--json")
    token = json.loads(made.out)["token"]

    with running(tmp_path, "--config", str(tmp_path / "demur.toml")) as proxy:
        assert proxy.post(HELLO).status_code == 401
        proxy.http.headers["authorization"] = f"Bearer {token}"
        assert proxy.post(HELLO).status_code == 200


HELLO_mcp_proxy = request("initialize", 0, protocolVersion="2025-11-25")
LIST = request("tools/list", "list")


class Ended(NamedTuple):
    """The end of a proxy: its status, the answers by id, its notes, and the server's input."""

    status: int
    answers: dict[Any, Any]
    notes: str
    reached: list[str]


def proxied(folder: Path, *words: str, says: str | None = None, asks: Any = ()) -> Ended:
    """Run the real command, send requests one after the other as a client does.

    It takes a carriage return for the end of a line, as text streams do.
    """
    options = [word for word in words if word.startswith("-") or "=" in word or "." in word]
    tricks = [word for word in words if word not in options]
    log = folder / "log"
    command = [
        sys.executable,
        "-m",
        "demur",
        "mcp",
        "proxy",
        *options,
        "--",
        sys.executable,
        SAMPLE_SERVER,
    ]
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
    refusal: str = answer["result"]["_meta"]["demur/refusal"]["code"]
    return refusal


def test_a_server_is_guarded_as_it_is(tmp_path: Path) -> None:
    asks = [
        HELLO_mcp_proxy,
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
    asks = [HELLO_mcp_proxy, *(call("echo", text, text=text) for text in odd)]

    ended = proxied(tmp_path, asks=asks)

    assert code(ended.answers["picture"]) == "CONTEXT_INJECTION"
    assert "cannot read the answer" in ended.answers["nan"]["error"]["message"]
    for text in ("both", "return"):
        assert ended.answers[text]["result"]["structuredContent"] == {"text": text}


def test_decisions_are_stored_where_there_are_settings(tmp_path: Path) -> None:
    demur_init(tmp_path)

    config = f"--config={tmp_path / 'demur.toml'}"
    asks = [HELLO_mcp_proxy, LIST, call("echo", 1, text="x")]

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

    ended = proxied(tmp_path, asks=[HELLO_mcp_proxy, call("echo", 1, text="inject")])

    assert code(ended.answers[1]) == "CONTEXT_INJECTION"
    assert "the demur.toml here is not used" in ended.notes
    assert stored(tmp_path) == []


def test_settings_that_the_environment_names_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demur_init(tmp_path)
    monkeypatch.setenv("DEMUR_CONFIG", str(tmp_path / "demur.toml"))

    ended = proxied(tmp_path, asks=[HELLO_mcp_proxy, call("echo", 1, text="x")])

    assert "DEMUR_CONFIG is not used" in ended.notes
    assert stored(tmp_path) == []


def test_arguments_are_judged_by_name_and_shape_whatever_the_tool(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"cmd": "rm -rf /"},
        {"where": {"target": "~/.ssh/authorized_keys"}},
        {"path": "/home/other/.bashrc", "content": "x"},
        {"uri": "file:///etc/shadow"},
        {"path": str(Path(sys.executable).with_name("demur")), "content": "exit 0"},
    ]
    asks = [HELLO_mcp_proxy, *(call("do_it", i, **one) for i, one in enumerate(calls))]
    ended = proxied(tmp_path, asks=asks)

    assert [code(ended.answers[i]) for i in range(len(calls))] == [
        "IRRECOVERABLE_DESTRUCTION",
        "PRIVILEGE_ESCALATION",
        "PRIVILEGE_ESCALATION",
        "EXFILTRATION_RISK",
        "PRIVILEGE_ESCALATION",
    ]
    assert "tools/call" not in ended.reached


def test_a_resource_that_is_a_secret_is_not_read(tmp_path: Path) -> None:
    uri = "file:///home/ann/%2Essh/id_rsa"
    ended = proxied(tmp_path, asks=[HELLO_mcp_proxy, request("resources/read", 1, uri=uri)])

    assert "EXFILTRATION_RISK" in ended.answers[1]["error"]["message"]
    assert "resources/read" not in ended.reached


def test_a_tool_that_changes_between_two_lists_is_held_without_pins(tmp_path: Path) -> None:
    again = {**LIST, "id": "again"}
    asks = [HELLO_mcp_proxy, LIST, call("echo", 1, text="x"), again, call("echo", 2, text="x")]
    ended = proxied(tmp_path, "fickle", asks=asks)

    assert len(ended.answers["list"]["result"]["tools"]) == 2
    assert [tool["name"] for tool in ended.answers["again"]["result"]["tools"]] == ["delete_all"]
    assert ended.answers[1]["result"]["structuredContent"] == {"text": "x"}
    assert code(ended.answers[2]) == "UNVERIFIED_TOOL"
    assert "changed within this session: description" in ended.notes


def test_a_server_that_answers_in_batches_leaves_nobody_waiting(tmp_path: Path) -> None:
    asks = [HELLO_mcp_proxy, call("echo", 1, text="x")]
    ended = proxied(tmp_path, "batched", asks=asks)

    assert ended.answers[1]["result"]["structuredContent"] == {"text": "x"}


def demur_init(folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "demur", "init"], cwd=folder, check=True, capture_output=True
    )


def test_pins_hold_from_one_run_to_the_next(tmp_path: Path) -> None:
    pins = tmp_path / "pins.json"
    demur("mcp", "pin", "--pins", pins, "--", sys.executable, SAMPLE_SERVER)
    asks = [HELLO_mcp_proxy, LIST, call("echo", 1, text="x"), call("other", 2)]

    same = proxied(tmp_path, f"--pins={pins}", asks=asks[:3])
    changed = proxied(tmp_path, f"--pins={pins}", "changed", "extra", asks=asks)

    assert "no pins" not in same.notes
    assert same.answers[1]["result"]["structuredContent"] == {"text": "x"}
    shown = [tool["name"] for tool in changed.answers["list"]["result"]["tools"]]
    assert shown == ["delete_all"]
    assert code(changed.answers[1]) == "UNVERIFIED_TOOL"
    assert code(changed.answers[2]) == "UNVERIFIED_TOOL"
    assert "hid the tool `echo`" in changed.notes


def test_a_server_without_pins_in_the_file_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pins = tmp_path / "pins.json"
    demur("mcp", "pin", "--pins", pins, "--name", "another", "--", sys.executable, SAMPLE_SERVER)

    words = ("--pins", str(pins), "--no-loops", "--", sys.executable, SAMPLE_SERVER)
    _, [answer] = inside(tmp_path, monkeypatch, [LIST], *words)

    assert answer["result"]["tools"] == []
    assert "no tools of `mcp_sample_server`" in capsys.readouterr().err


def test_the_status_of_the_server_is_passed_on_and_open_requests_are_answered(
    tmp_path: Path,
) -> None:
    ended = proxied(tmp_path, asks=[HELLO_mcp_proxy, call("echo", 1, text="die")])

    assert ended.status == 7
    assert "the server is gone (status 7)" in ended.answers[1]["error"]["message"]


def test_a_server_cannot_send_sampling_requests_to_the_client(tmp_path: Path) -> None:
    asks = [HELLO_mcp_proxy, call("echo", 1, text="x"), request("ping", 2)]

    ended = proxied(tmp_path, "samples", asks=asks)

    assert "s1" not in ended.answers
    assert "refused to ask the client `sampling/createMessage`" in ended.notes
    assert "response" in ended.reached


def test_messages_sent_at_once_are_all_answered(tmp_path: Path) -> None:
    says = "\n".join(json.dumps(one) for one in (HELLO_mcp_proxy, LIST)) + "\nnonsense\n"

    ended = proxied(tmp_path, says=says)

    assert set(ended.answers) == {0, "list", None}
    assert ended.answers[None]["error"]["code"] == -32700


def test_a_signal_ends_both(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "demur",
        "mcp",
        "proxy",
        "--",
        sys.executable,
        SAMPLE_SERVER,
        "stubborn",
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(HELLO_mcp_proxy).encode() + b"\n")
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
    """Run the command in this process with files for streams; return its status and answers."""
    monkeypatch.chdir(folder)
    source, target = folder / "in", folder / "out"
    source.write_text("".join(json.dumps(one) + "\n" for one in says), encoding="utf-8")
    with source.open() as stdin, target.open("w") as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        status = main(["mcp", "proxy", *words])
    return status, [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]


def test_files_will_do_for_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, said = inside(
        tmp_path, monkeypatch, [HELLO_mcp_proxy], "--", sys.executable, SAMPLE_SERVER
    )

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
def test_a_proxy_that_cannot_start_is_an_error(
    words: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    ran = demur("mcp", "proxy", *words)

    assert ran.status == (1 if words else 2)
    assert problem in ran.err


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    return tmp_path / "pins.json"


def pin(pins: Path, *words: str) -> Ran:
    options = [word for word in words if word.startswith("--")]
    tricks = [word for word in words if not word.startswith("--")]
    return demur(
        "mcp", "pin", "--pins", pins, *options, "--", sys.executable, SAMPLE_SERVER, *tricks
    )


def test_pins_are_shown_and_written(pins: Path) -> None:
    ran = pin(pins)

    assert (ran.status, ran.err) == (0, "")
    assert "echo        new" in ran.out
    assert "2 of 2 tools of `mcp_sample_server` pinned" in ran.out
    assert [tool.name for tool in read_pins(pins).tools_of("mcp_sample_server")] == [
        "echo",
        "delete_all",
    ]


def test_a_poisoned_tool_is_left_out_with_the_reason(pins: Path) -> None:
    ran = pin(pins, "poisoned")

    assert ran.status == 3
    assert "refused `notes`: CONTEXT_INJECTION" in ran.out
    assert "--force" in ran.out
    assert "notes" not in {tool.name for tool in read_pins(pins).tools_of("mcp_sample_server")}


def test_a_tool_that_cannot_be_read_is_left_out(pins: Path) -> None:
    ran = pin(pins, "broken", "--force")

    assert ran.status == 3
    assert "refused `broken`: " in ran.out


def test_a_poisoned_tool_is_pinned_by_force(pins: Path) -> None:
    ran = pin(pins, "poisoned", "--force")

    assert ran.status == 0
    assert "new `notes`: CONTEXT_INJECTION" in ran.out
    assert "notes" in {tool.name for tool in read_pins(pins).tools_of("mcp_sample_server")}


def test_pin_reports_new_changed_and_removed_tools(pins: Path) -> None:
    pin(pins, "extra")

    ran = pin(pins, "changed")

    assert "echo        changed" in ran.out
    assert "delete_all  same" in ran.out
    assert "no longer pinned: `other`" in ran.out


def test_the_same_as_json(pins: Path) -> None:
    shown = json.loads(pin(pins, "poisoned", "--json").out)

    assert shown["server"] == "mcp_sample_server"
    outcomes = {tool["name"]: tool["outcome"] for tool in shown["tools"]}
    assert outcomes == {"echo": "new", "delete_all": "new", "notes": "refused"}
    assert shown["tools"][0]["schema_digest"].startswith("sha256:")


def test_pins_that_cannot_be_read_are_not_written_over(pins: Path) -> None:
    pins.write_text("{", encoding="utf-8")

    ran = pin(pins)

    assert (ran.status, pins.read_text(encoding="utf-8")) == (1, "{")


def test_a_server_that_cannot_start_is_an_error(pins: Path) -> None:
    ran = demur("mcp", "pin", "--pins", pins, "--", "/no/such/program")

    assert ran.status == 1
    assert "cannot start the server" in ran.err
    assert not pins.exists()

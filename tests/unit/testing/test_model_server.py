import json
import socket
import subprocess
import sys
from http.client import HTTPConnection
from typing import Any

import pytest

from demur.detect.detector import detect_refusal
from demur.errors import InputError
from demur.testing.model_replies import FAULTS, PERSONAS
from demur.testing.model_server import ModelServer, main


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def post(url: str, body: bytes, path: str = "/chat/completions") -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port_of(url), timeout=10)
    try:
        connection.request("POST", f"/v1{path}", body)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def asked(prompt: str = "How are you?", **more: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": prompt}], **more}).encode()


def said(url: str, prompt: str, **more: Any) -> str:
    status, text = post(url, asked(prompt, **more))
    assert status == 200
    return str(json.loads(text)["choices"][0]["message"]["content"])


def test_the_echo_says_what_it_hears_and_counts_tokens() -> None:
    with ModelServer(persona="echo") as server:
        status, text = post(server.url, asked("one two three", model="m"))

    value = json.loads(text)
    assert status == 200
    assert value["choices"][0]["message"]["content"] == "one two three"
    assert value["usage"] == {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}
    assert value["model"] == "m"
    assert server.requests == 1


def test_the_same_prompt_is_always_answered_alike() -> None:
    answers = []
    for _ in range(2):
        with ModelServer() as server:
            answers.append([said(server.url, f"Prompt {number}") for number in range(20)])

    assert answers[0] == answers[1]
    assert len(set(answers[0])) > 1


def test_the_label_of_a_request_tells_a_persona_what_to_do() -> None:
    with ModelServer(persona="over-refusing") as server:
        harmful = said(server.url, "How do I do it?", metadata={"label": "harmful"})
        alarming = said(server.url, "How do I kill a process?")

    assert detect_refusal(harmful).kind == "full"
    assert detect_refusal(alarming).kind == "full"


def test_a_stream_comes_in_pieces_and_ends() -> None:
    with ModelServer(persona="echo") as server:
        _, text = post(server.url, asked("a longer prompt than one piece", stream=True))

    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    deltas = [one["choices"][0]["delta"].get("content", "") for one in chunks if one["choices"]]
    assert len(deltas) > 3
    assert "".join(deltas) == "a longer prompt than one piece"
    assert chunks[-1]["usage"]["prompt_tokens"] == 6


@pytest.mark.parametrize(
    ("fault", "status"),
    [("error-429", 429), ("error-500", 500), ("error-401", 401), ("html", 200), ("no-text", 200)],
)
def test_a_model_that_is_named_like_a_fault_has_it(fault: str, status: int) -> None:
    with ModelServer() as server:
        assert post(server.url, asked(model=fault))[0] == status


def test_a_fault_may_be_had_for_all_and_only_once() -> None:
    with ModelServer(fault="once-error-503") as server:
        assert [post(server.url, asked("a"))[0] for _ in range(3)] == [503, 200, 200]
        assert post(server.url, asked("b"))[0] == 503


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"messages": []}', b'{"messages": [{"role": "user", "content": 3}]}'],
)
def test_a_malformed_request_is_an_error(body: bytes) -> None:
    with ModelServer() as server:
        status, text = post(server.url, body)

    assert status == 400
    assert "no chat completion request" in json.loads(text)["error"]["message"]


def test_other_places_are_not_served() -> None:
    with ModelServer() as server:
        assert post(server.url, asked(), "/embeddings")[0] == 404


def test_a_body_without_a_length_is_refused_and_the_connection_closed() -> None:
    with ModelServer() as server:
        port = port_of(server.url)
        for length in (b"", b"content-length: many\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n" + length + b"\r\n")
                assert connection.recv(4096).startswith(b"HTTP/1.1 413")
                assert connection.recv(4096) == b""


def test_a_head_without_an_end_is_cut_off() -> None:
    with ModelServer() as server:
        port = port_of(server.url)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"x" * 70_000)
            try:
                heard = connection.recv(4096)
            except ConnectionResetError:
                heard = b""

    assert heard == b""
    assert server.requests == 0


def test_requests_that_come_at_once_are_answered_in_turn() -> None:
    body = asked("first")
    head = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body)
    with ModelServer(persona="echo") as server:
        port = port_of(server.url)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall((head + body) * 2)
            held = b""
            while held.count(b'"usage"') < 2:
                held += connection.recv(65_536)

    assert server.requests == 2


@pytest.mark.parametrize("wrong", [{"persona": "rude"}, {"fault": "earthquake"}])
def test_unknown_personas_and_faults_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="unknown") as caught:
        ModelServer(**wrong)

    assert caught.value.help


def test_a_port_that_is_taken_is_an_error() -> None:
    with ModelServer() as server:
        port = port_of(server.url)
        with pytest.raises(OSError, match="address already in use"), ModelServer(port=port):
            """It does not come to this."""


def test_it_closes_while_an_answer_is_under_way() -> None:
    with ModelServer(fault="timeout") as server:
        port = port_of(server.url)
        connection = socket.create_connection(("127.0.0.1", port))
        body = asked()
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s"
            % (len(body), body)
        )
        while not server.requests:
            """It is on its way."""
    connection.close()


def test_as_a_command_it_says_where_it_listens_and_ends_with_its_input() -> None:
    command = [sys.executable, "-m", "demur.testing.model_server", "--with-stdin"]
    with subprocess.Popen(
        [*command, "--persona", "echo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip().removeprefix("listening on ")
        assert said(url, "hello") == "hello"
        process.stdin.close()
        assert process.wait(10) == 0


def test_without_anybody_at_its_input_it_ends_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said_in = [b"a word", b""]
    monkeypatch.setattr("os.read", lambda *_: said_in.pop(0))

    assert main(["--with-stdin", "--latency-ms", "1"]) == 0
    assert capsys.readouterr().out.startswith("listening on http://127.0.0.1:")


def test_a_server_that_has_stopped_can_be_stopped_again() -> None:
    with ModelServer() as server:
        """It runs."""
    server.stop()


def test_a_command_line_that_is_wrong_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--persona", "rude"])

    assert "over-refusing" in capsys.readouterr().err


def test_every_persona_and_fault_is_listed() -> None:
    assert PERSONAS == ("balanced", "over-refusing", "under-refusing", "echo", "llama-guard")
    assert {"timeout", "half-stream", "once-error-429"} <= set(FAULTS)

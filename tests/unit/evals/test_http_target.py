import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
from support.eval_rows import a_row, wait

from demur.evals import http_target
from demur.evals.http_target import ConnectionPool, OpenAIOptions, OpenAITarget
from demur.evals.target import TargetAnswer, TargetError, encode_answer
from demur.providers.normalization import normalize
from demur.testing.model_server import ModelServer


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def echo() -> Iterator[ModelServer]:
    with ModelServer(persona="echo") as server:
        yield server


def ask(url: str, prompt: str = "one two", **options: Any) -> TargetAnswer:
    async def asked() -> TargetAnswer:
        target = OpenAITarget(url, OpenAIOptions(**{"retries": 1, **options}))
        try:
            return await target.answer(a_row(prompt=prompt))
        finally:
            await target.close()

    return asyncio.run(asked())


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_has_text_tokens_cost_and_the_response(echo: ModelServer, stream: bool) -> None:
    answer = ask(echo.url, stream=stream, price_in=1.0, price_out=2.0)

    assert (answer.text, answer.error, answer.attempts) == ("one two", None, 1)
    assert (answer.prompt_tokens, answer.completion_tokens) == (2, 2)
    assert answer.cost == 6e-06
    assert answer.ms > 0
    assert answer.native["choices"][0]["message"]["content"] == "one two"


@pytest.mark.parametrize(
    ("fault", "kind", "requests"),
    [
        ("error-400", "http", 1),
        ("error-401", "http", 1),
        ("error-429", "rate_limit", 2),
        ("error-500", "http", 2),
        ("html", "protocol", 1),
        ("invalid-json", "protocol", 1),
        ("empty-choices", "protocol", 1),
        ("no-text", "protocol", 1),
        ("half-stream", "protocol", 2),
        ("cut-body", "protocol", 2),
        ("timeout", "timeout", 2),
    ],
)
def test_a_failure_is_an_error_and_never_text(
    echo: ModelServer, fault: str, kind: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_target, "retry_wait", lambda *_: 0)
    answer = ask(echo.url, model=fault, timeout_s=0.2 if fault == "timeout" else 30)

    assert (answer.error_kind, answer.text, answer.native) == (kind, "", None)
    assert answer.error
    assert (answer.attempts, echo.requests) == (requests, requests)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("refusal-field", "MODEL_DECLINED"),
        ("content-filter", "FILTERED_UNSPECIFIED"),
        ("azure-filter", "CONTENT_VIOLENCE"),
    ],
)
def test_a_provider_that_says_it_refused_has_answered(
    echo: ModelServer, fault: str, code: str
) -> None:
    answer = ask(echo.url, model=fault)
    refusal = normalize(answer.native)

    assert answer.error is None
    assert refusal is not None
    assert refusal.code == code


def test_a_request_that_failed_for_a_while_is_sent_again_and_counted(echo: ModelServer) -> None:
    answer = ask(echo.url, model="once-error-429")

    assert (answer.text, answer.attempts) == ("one two", 2)


def test_nobody_there_is_an_error_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_target, "retry_wait", lambda *_: 0)
    with ModelServer() as server:
        url = server.url
    answer = ask(url)

    assert answer.error is not None
    assert answer.error.startswith("cannot connect: ")
    assert (answer.error_kind, answer.attempts) == ("http", 2)


class Fixed(httpx.AsyncBaseTransport):
    """A transport that answers by a function and keeps the requests."""

    def __init__(self, answer: Callable[[], httpx.Response]) -> None:
        self.asked: list[httpx.Request] = []
        self._answer = answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return what the function returns."""
        self.asked.append(request)
        return self._answer()


class Pieces(httpx.AsyncByteStream):
    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


GOOD = json.dumps({"choices": [{"message": {"content": "Hi."}}]}).encode()


def through(answer: Callable[[], httpx.Response], **options: Any) -> tuple[TargetAnswer, Fixed]:
    transport = Fixed(answer)
    given = OpenAIOptions(**{"retries": 0, **options})
    target = OpenAITarget("http://model.test/v1", given, transport=transport)
    return wait(target.answer(a_row())), transport


def test_the_request_says_what_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-made-up")
    _, transport = through(
        lambda: httpx.Response(200, stream=Pieces(GOOD)),
        model="m",
        system="Be kind.",
        temperature=0.5,
        seed=7,
        max_tokens=9,
        stream=True,
        api_key_env="MODEL_KEY",
    )
    [request] = transport.asked

    assert str(request.url) == "http://model.test/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-made-up"
    assert request.headers["accept"] == "text/event-stream"
    assert json.loads(request.content) == {
        "model": "m",
        "temperature": 0.5,
        "seed": 7,
        "max_tokens": 9,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Please say the number 0."},
        ],
    }


def test_the_api_key_is_never_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-made-up")
    echoed = b'{"error": {"message": "the key sk-made-up is wrong"}}'
    answer, _ = through(lambda: httpx.Response(401, stream=Pieces(echoed)), api_key_env="MODEL_KEY")
    options = OpenAIOptions(api_key_env="MODEL_KEY")
    target = OpenAITarget("http://user:sk-made-up@model.test/v1?key=sk-made-up", options)

    assert b"sk-made-up" not in encode_answer(answer)
    assert answer.error == "status 401: the key [key] is wrong"
    assert "sk-made-up" not in str(target.settings)
    assert target.settings["url"] == "http://model.test/v1/chat/completions"
    wait(target.close())


def test_a_compressed_response_is_read_and_a_broken_one_is_an_error() -> None:
    headers = {"content-encoding": "gzip"}
    good = gzip.compress(GOOD)

    answer, _ = through(lambda: httpx.Response(200, headers=headers, stream=Pieces(good)))
    assert answer.text == "Hi."
    answer, _ = through(lambda: httpx.Response(200, headers=headers, stream=Pieces(GOOD)))
    assert answer.error == "the response cannot be decompressed"


def test_an_endless_response_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_target, "MAX_REPLY_BYTES", 10)
    answer, _ = through(lambda: httpx.Response(200, stream=Pieces(b"x" * 6, b"x" * 6)))

    assert answer.error == "the response has more than 10 bytes"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx.ReadTimeout("slow"), "timeout"),
        (httpx.RemoteProtocolError("odd"), "protocol"),
        (httpx.ProxyError(""), "http"),
    ],
)
def test_errors_of_any_transport_are_distinguished(error: Exception, kind: str) -> None:
    def fail() -> httpx.Response:
        raise error

    assert through(fail)[0].error_kind == kind


def test_a_limit_on_requests_holds_for_retries_too(echo: ModelServer) -> None:
    answer = ask(echo.url, model="once-error-429", rate=10)

    assert answer.attempts == 2


@pytest.mark.parametrize("url", ["http://", "ftp://x/v1", "nowhere", "http://x:port/"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(TargetError, match="is not an HTTP address"):
        OpenAITarget(url, OpenAIOptions())


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://x", "http://x/chat/completions"),
        ("http://x/v1/", "http://x/v1/chat/completions"),
        ("https://x/v1/chat/completions", "https://x/v1/chat/completions"),
    ],
)
def test_the_address_may_end_before_the_path(url: str, asked: str) -> None:
    target = OpenAITarget(url, OpenAIOptions())

    assert target.settings["url"] == asked
    assert target.name == "x"


@pytest.mark.parametrize("key", [None, "", "schlüssel", "two\nlines"])
def test_a_key_that_is_none_is_refused_without_showing_it(
    key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MODEL_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("MODEL_KEY", key)
    with pytest.raises(TargetError, match="MODEL_KEY") as caught:
        OpenAITarget("http://x", OpenAIOptions(api_key_env="MODEL_KEY"))

    assert not key or key not in str(caught.value)


def test_a_proxy_of_the_environment_is_used_unless_it_is_passed_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "near.test")
    far = OpenAITarget("http://far.test", OpenAIOptions())
    near = OpenAITarget("http://near.test", OpenAIOptions())

    assert isinstance(far._transport, httpx.AsyncHTTPTransport)
    assert isinstance(near._transport, ConnectionPool)


def test_rate_and_retry_options_do_not_change_the_target_settings() -> None:
    slow = OpenAITarget("http://x", OpenAIOptions(rate=1, retries=0, timeout_s=1))
    fast = OpenAITarget("http://x", OpenAIOptions())

    assert slow.settings == fast.settings
    assert fast.settings != OpenAITarget("http://x", OpenAIOptions(seed=1)).settings

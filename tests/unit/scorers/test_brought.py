"""A model that a user brings: caches, limits, retries, and each way to fail."""

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from support.gates import CORE, opened
from support.model_endpoint import (
    ModelEndpoint,
    RawReply,
    chat_reply,
    llama_guard_reply,
    model_endpoint,
)

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.errors import InputError
from demur.gate.pipeline import GuardPipeline
from demur.policy.loader import parse_policy
from demur.scorers.brought import (
    MAX_FAILURES,
    BroughtModel,
    CallBudget,
    CircuitBreaker,
    RemoteModel,
    ScoreCache,
    open_scorer,
    split_text,
)
from demur.scorers.client import MAX_REPLY_BYTES, AwsCredentials, JsonClient, sign_aws_request
from demur.scorers.contract import CategoryScores, ScorerError, ScorerText
from demur.scorers.settings import ModelSettings

SAFE = chat_reply("safe")
QUUX = ScorerText("what is a quux")
CHAT = parse_policy("""
schema_version: policy.v1
policy_id: chat
policy_version: 1.0.0
rules:
  - id: R_MAY
    stage: ALLOW_PATHS
    if: {action_type: generate}
    then: {verdict: ALLOW}
""")


class Clock:
    """A monotonic clock that tests move; sleeping moves it too."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Move the clock."""
        self.pauses.append(seconds)
        self.now += seconds


@contextmanager
def served(
    answer: Any = llama_guard_reply, clock: Clock | None = None, **settings: Any
) -> Iterator[tuple[ModelEndpoint, BroughtModel]]:
    """Yield an endpoint and the scorer that asks it."""
    with model_endpoint(answer) as server:
        yield server, scorer_at(server.url, clock, **settings)


def scorer_at(url: str, clock: Clock | None = None, **settings: Any) -> BroughtModel:
    clock = clock or Clock()
    fields = {"kind": "llama_guard", "url": url, **settings}
    return open_scorer(
        "guard",
        ModelSettings(**fields),
        registry=CORE,
        environment={"KEY": "k-secret"},
        monotonic=clock,
        sleep=clock.sleep,
        jitter=lambda: 0.5,
    )


def fail(scorer: BroughtModel, text: ScorerText = QUUX) -> ScorerError:
    with pytest.raises(ScorerError) as caught:
        scorer.score([text])
    assert "k-secret" not in str(caught.value)
    assert text.text not in str(caught.value)
    return caught.value


def in_turn(*replies: Any) -> Callable[[Any], Any]:
    """Return a function that gives each reply once, and the last one for ever."""
    left = list(replies)
    return lambda _request: left.pop(0) if len(left) > 1 else left[0]


# -- cache -----------------------------------------------------------------------------------


def test_the_same_text_is_asked_about_once() -> None:
    with served() as (server, scorer):
        first = scorer.score([QUUX])
        assert scorer.score([QUUX]) == first
        assert scorer.score([QUUX, ScorerText("hello"), QUUX])[2] == first[0]
    assert len(server.requests) == 2


def test_the_prompt_and_the_surface_are_part_of_what_is_asked() -> None:
    with served() as (server, scorer):
        answered = ScorerText(QUUX.text, None, Surface.OUTPUT)
        scorer.score([QUUX, answered, answered._replace(prompt="why?")])
    assert len(server.requests) == 3


def test_no_text_passes_for_another_text_with_a_prompt() -> None:
    with served() as (server, scorer):
        whole = ScorerText("quux\0why", "\0", Surface.OUTPUT)
        scorer.score([whole, ScorerText("quux", "why\0\0", Surface.OUTPUT)])
    assert len(server.requests) == 2


def test_scores_are_forgotten_after_a_while() -> None:
    clock = Clock()
    with served(clock=clock, cache_s=60) as (server, scorer):
        scorer.score([QUUX])
        clock.now += 61
        scorer.score([QUUX])
    assert len(server.requests) == 2


def test_a_cache_keeps_what_was_used_last() -> None:
    cache = ScoreCache(2, 60, Clock())
    one, two, three = (CategoryScores({"a": number / 10}) for number in range(3))
    cache.keep("1", one)
    cache.keep("2", two)
    assert cache.find("1") == one
    cache.keep("3", three)
    assert (cache.find("1"), cache.find("2"), cache.find("3")) == (one, None, three)


def test_a_failure_is_not_kept() -> None:
    with served(in_turn(RawReply(400), SAFE)) as (_server, scorer):
        fail(scorer)
        assert scorer.score([QUUX])[0].scores["S1"] == 0


# -- long texts ------------------------------------------------------------------------------


def test_a_long_text_is_scored_in_parts_and_the_highest_score_counts() -> None:
    with served(max_length=1000) as (server, scorer):
        words = [*map(str, range(500)), "quux", *map(str, range(500, 1000))]
        [found] = scorer.score([ScorerText(" ".join(words))])
    assert found.flagged == {"S1"}
    assert len(server.requests) == 5


def test_the_end_of_a_long_prompt_goes_with_each_part_of_its_answer() -> None:
    answer = ScorerText("x" * 1500, "y" * 5000 + "why?", Surface.OUTPUT)
    parts = list(split_text(answer, 1000))
    assert {len(part.prompt or "") for part in parts} == {1000}
    assert all((part.prompt or "").endswith("why?") for part in parts)


def test_parts_overlap() -> None:
    parts = [part.text for part in split_text(ScorerText("x" * 950 + "quux her" + "x" * 900), 1000)]
    assert all(len(part) <= 1000 for part in parts)
    assert any("quux her" in part for part in parts)


# -- retries and time ------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [RawReply(503), RawReply(429), RawReply(500), RawReply(-1)])
def test_a_call_that_fails_for_now_is_made_again(failure: RawReply) -> None:
    clock = Clock()
    with served(in_turn(failure, chat_reply("unsafe\nS1")), clock) as (server, scorer):
        [found] = scorer.score([QUUX])
    assert found.flagged == {"S1"}
    assert len(server.requests) == 2
    assert clock.pauses == [pytest.approx(0.2)]


def test_a_server_says_how_long_to_wait() -> None:
    clock = Clock()
    limited = RawReply(429, headers={"Retry-After": "2"})
    with served(in_turn(limited, SAFE), clock) as (_server, scorer):
        scorer.score([QUUX])
    assert clock.pauses == [2.0]


def test_a_wait_beyond_the_timeout_is_not_waited() -> None:
    clock = Clock()
    limited = RawReply(429, headers={"Retry-After": "60"})
    with served(limited, clock) as (server, scorer):
        assert fail(scorer).problem == "the model answered HTTP 429"
    assert clock.pauses == []
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "cause", "help_text"),
    [
        (400, "invalid_reply", "`model`"),
        (413, "invalid_reply", "`max_length`"),
        (401, "unreachable", "api_key_env"),
        (404, "unreachable", "`url`"),
    ],
)
def test_a_call_that_is_wrong_is_not_made_again(status: int, cause: str, help_text: str) -> None:
    with served(RawReply(status)) as (server, scorer):
        error = fail(scorer)
    assert (error.cause, str(status) in error.problem) == (cause, True)
    assert help_text in (error.help or "")
    assert len(server.requests) == 1


def test_a_redirect_is_not_followed() -> None:
    away = RawReply(307, headers={"Location": "http://127.0.0.1:1/"})
    with served(away) as (_server, scorer):
        assert "HTTP 307" in fail(scorer).problem


def test_a_redirect_gets_neither_the_key_nor_the_text() -> None:
    with model_endpoint(SAFE) as other:
        away = RawReply(302, headers={"Location": other.url})
        with served(away, api_key_env="KEY") as (server, scorer):
            assert "follows none" in (fail(scorer).help or "")
        assert (len(server.requests), other.requests) == (1, [])


def test_a_reply_without_end_is_not_read() -> None:
    with served(RawReply(200, b" " * (MAX_REPLY_BYTES + 1))) as (server, scorer):
        error = fail(scorer)
    assert (error.cause, error.problem) == (
        "invalid_reply",
        "the reply has more than 4,000,000 bytes",
    )
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
        (b"", b"H"),
    ],
)
def test_a_reply_that_drips_is_given_up_in_time(head: bytes, drop: bytes) -> None:
    with dripping_server(head, drop) as url:
        settings = ModelSettings(kind="llama_guard", url=url, timeout_s=0.2)
        began = time.perf_counter()
        assert fail(open_scorer("guard", settings, registry=CORE)).cause == "timeout"
        assert time.perf_counter() - began < 5


@contextmanager
def dripping_server(head: bytes, drop: bytes) -> Iterator[str]:
    """Yield the address of a server that sends a byte now and then, for longer than a test runs."""
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(head)
            while not ended.wait(0.02):
                connection.sendall(drop)

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=drip, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        ended.set()


def test_nobody_answers() -> None:
    with model_endpoint(SAFE) as server:
        url = server.url
    error = fail(scorer_at(url))
    assert (error.cause, error.problem) == ("unreachable", "nothing listens at its address")


def test_a_model_that_keeps_silent_times_out() -> None:
    with model_endpoint(RawReply(0)) as server:
        settings = ModelSettings(kind="llama_guard", url=server.url, timeout_s=0.1)
        scorer = open_scorer("guard", settings, registry=CORE)
        assert fail(scorer).cause == "timeout"


def test_a_reply_that_breaks_off_is_asked_for_again() -> None:
    cut = RawReply(200, b'{"choices":', headers={"Content-Length": "500", "Connection": "close"})
    with served(in_turn(cut, SAFE)) as (server, scorer):
        assert scorer.score([QUUX])[0].scores["S1"] == 0
        assert len(server.requests) == 2


@pytest.mark.parametrize("kind", ["llama_guard", "granite_guardian", "qwen3guard"])
def test_a_verdict_is_found_in_time_however_long_the_reply_is(kind: str) -> None:
    began = time.perf_counter()
    for filler in ("\n", " ", "<score>", "Categories: ", "*"):
        reply = chat_reply("x" + filler * (90_000 // len(filler)) + "x")
        with served(reply, kind=kind) as (_server, scorer):
            assert fail(scorer).cause == "invalid_reply"
    assert time.perf_counter() - began < 20
    with served(chat_reply("safe" + " " * 100_000), kind=kind) as (_server, scorer):
        assert "too long for a verdict" in fail(scorer).problem


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 100_000])
def test_a_reply_that_is_no_json_fails(body: bytes) -> None:
    with served(RawReply(200, body)) as (_server, scorer):
        assert fail(scorer).cause == "invalid_reply"


@pytest.mark.parametrize("reply", [[], {}, 1, {"choices": []}, {"choices": [1]}, {"choices": {}}])
def test_a_reply_of_another_shape_fails(reply: Any) -> None:
    with served(lambda _request: reply) as (_server, scorer):
        assert fail(scorer).cause == "invalid_reply"


def test_connections_are_kept() -> None:
    with served(cache_size=0) as (server, scorer):
        for _ in range(4):
            scorer.score([QUUX])
        assert server.connections == 1


def test_a_kept_connection_that_was_closed_is_opened_again() -> None:
    closing = RawReply(200, b'{"choices": [{"message": {"content": "safe"}}]}')
    with served(in_turn(closing, RawReply(-1), closing), cache_size=0) as (server, scorer):
        scorer.score([QUUX])
        scorer.score([QUUX])
    assert (server.connections, len(server.requests)) == (2, 3)


# -- limits ----------------------------------------------------------------------------------


def test_a_budget_of_calls_is_kept() -> None:
    clock = Clock()
    with served(clock=clock, calls_per_minute=2) as (_server, scorer):
        scorer.score([ScorerText("one")])
        scorer.score([ScorerText("two")])
        error = fail(scorer, ScorerText("three"))
        assert (error.cause, error.problem) == ("over_budget", "2 calls a minute are spent")
        assert scorer.score([ScorerText("one")])
        clock.now += 61
        assert scorer.score([ScorerText("three")])


def test_each_attempt_is_a_call_of_the_budget() -> None:
    with served(RawReply(503), Clock(), calls_per_minute=3, retries=9) as (server, scorer):
        assert fail(scorer).problem == "the model answered HTTP 503"
        assert len(server.requests) == 3
        assert fail(scorer).cause == "over_budget"


def test_a_spent_budget_is_no_failure_of_the_model() -> None:
    clock = Clock()
    with served(clock=clock, calls_per_minute=1) as (_server, scorer):
        scorer.score([ScorerText("one")])
        for number in range(MAX_FAILURES + 1):
            assert fail(scorer, ScorerText(f"x{number}")).cause == "over_budget"


def test_no_budget_admits_everything() -> None:
    budget = CallBudget(None, Clock())
    for _ in range(1000):
        budget.spend()


def test_a_model_that_keeps_failing_is_left_alone_for_a_while() -> None:
    clock = Clock()
    with served(in_turn(*[RawReply(404)] * (MAX_FAILURES + 1), SAFE), clock) as (server, scorer):
        for _ in range(MAX_FAILURES):
            assert fail(scorer).cause == "unreachable"
        assert fail(scorer).cause == "circuit_open"
        assert len(server.requests) == MAX_FAILURES
        clock.now += 31
        assert fail(scorer).cause == "unreachable"
        assert fail(scorer).cause == "circuit_open"
        clock.now += 31
        assert scorer.score([QUUX])
        assert scorer.score([ScorerText("another")])


@pytest.mark.parametrize("reply", [RawReply(400), RawReply(413), chat_reply("I am a poem")])
def test_texts_that_confuse_a_model_do_not_turn_it_off(reply: Any) -> None:
    with served(in_turn(*[reply] * (MAX_FAILURES + 1), SAFE)) as (_server, scorer):
        for _ in range(MAX_FAILURES + 1):
            assert fail(scorer).cause == "invalid_reply"
        assert scorer.score([QUUX])


def test_a_spent_budget_does_not_hide_failures_of_the_model() -> None:
    clock = Clock()
    with served(RawReply(404), clock, calls_per_minute=MAX_FAILURES - 1) as (_server, scorer):
        causes = [fail(scorer).cause for _ in range(MAX_FAILURES)]
        clock.now += 61
        causes += [fail(scorer).cause for _ in range(2)]
    expected = [*["unreachable"] * (MAX_FAILURES - 1), "over_budget", "unreachable", "circuit_open"]
    assert causes == expected


def test_a_text_that_confuses_a_model_does_not_keep_it_off() -> None:
    clock = Clock()
    unclear = chat_reply("I am a poem")
    with served(in_turn(*[RawReply(404)] * MAX_FAILURES, unclear, SAFE), clock) as (_, scorer):
        for _ in range(MAX_FAILURES):
            fail(scorer)
        clock.now += 31
        assert fail(scorer).cause == "invalid_reply"
        assert scorer.score([QUUX])


def test_calls_that_wait_for_others_do_not_turn_a_model_off() -> None:
    with model_endpoint(lambda _request: server.release.wait(20) and SAFE) as server:
        settings = ModelSettings(kind="llama_guard", url=server.url, concurrency=1, timeout_s=0.1)
        backend = RemoteModel(settings, JsonClient(server.url, lambda _path, _body: {}))
        busy = BroughtModel("guard", settings, backend)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(backend.score, [QUUX], time.monotonic() + 20)
            while not server.requests:
                time.sleep(0.01)
            errors = [
                fail(busy, ScorerText(f"text {number}")) for number in range(MAX_FAILURES + 1)
            ]
            server.release.set()
            first.result()
        assert {(error.cause, error.help) for error in errors} == {
            ("timeout", "raise `concurrency`, or `timeout_s`")
        }
        assert busy.score([ScorerText("the next")])


class SlowBackend:
    """Takes too long."""

    def score(self, texts: Sequence[ScorerText], deadline: float) -> list[CategoryScores]:
        """Take too long."""
        del texts, deadline
        raise ScorerError("timeout", "it took too long")


def test_long_texts_that_take_too_long_do_not_turn_a_model_off() -> None:
    settings = ModelSettings(kind="llama_guard", max_length=200)
    scorer = BroughtModel("own", settings, SlowBackend(), monotonic=Clock())
    for number in range(MAX_FAILURES + 1):
        assert fail(scorer, ScorerText(" ".join(map(str, range(number, 300))))).cause == "timeout"
    causes = [
        fail(scorer, ScorerText(f"text {number}")).cause for number in range(MAX_FAILURES + 1)
    ]
    assert causes == [*["timeout"] * MAX_FAILURES, "circuit_open"]


def test_one_call_tries_whether_the_model_is_back() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    for _ in range(MAX_FAILURES):
        breaker.report(failed=True)
    clock.now += 31
    breaker.admit()
    with pytest.raises(ScorerError):
        breaker.admit()
    breaker.report(failed=False)
    breaker.admit()


def test_no_more_calls_at_a_time_than_the_settings_allow() -> None:
    lock, running, most = threading.Lock(), 0, 0
    both = threading.Barrier(2, timeout=20)

    def answer(_request: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait()
        with lock:
            running -= 1
        return {"choices": [{"text": "No"}]}

    with model_endpoint(answer) as server:
        settings = ModelSettings(
            kind="shieldgemma", url=server.url, concurrency=2, timeout_s=60, retries=0
        )
        [found] = open_scorer("shield", settings, registry=CORE).score([QUUX])
    assert len(found.scores) == 4
    assert most == 2


def test_threads_get_the_scores_of_their_own_texts() -> None:
    with served(concurrency=4, timeout_s=60, max_length=200) as (_server, scorer):

        def ask(number: int) -> bool:
            words = f"{'quux' if number % 3 else 'fern'} {number} "
            [found] = scorer.score([ScorerText(words * 60)])
            return found.flagged == ({"S1"} if number % 3 else set())

        with ThreadPoolExecutor(12) as pool:
            assert all(pool.map(ask, range(36)))


# -- keys ------------------------------------------------------------------------------------


def test_a_key_comes_from_the_environment_alone() -> None:
    with served(api_key_env="KEY") as (server, scorer):
        scorer.score([QUUX])
    assert server.requests[0].headers["authorization"] == "Bearer k-secret"
    with served() as (server, scorer):
        scorer.score([QUUX])
    assert "authorization" not in server.requests[0].headers


def test_a_missing_key_fails_before_anything_is_sent() -> None:
    with served(api_key_env="OTHER_KEY") as (server, scorer):
        error = fail(scorer)
    assert error.problem == "the environment variable `OTHER_KEY` holds no key"
    assert server.requests == []


@pytest.mark.parametrize("key", ["AKIAIOSFODNN7EXAMPLE", "0123abcdef", "k_secret_1"])
def test_a_key_in_the_place_of_its_variable_is_not_shown(key: str) -> None:
    if not key[0].isdigit():
        error = fail(scorer_at("http://127.0.0.1:1/v1", api_key_env=key))
        assert error.problem == "the environment variable of `api_key_env` holds no key"
        return
    with pytest.raises(InputError) as caught:
        scorer_at("http://127.0.0.1:1/v1", api_key_env=key)
    assert key not in str(caught.value)


def test_a_key_is_in_no_record_log_or_result(caplog: pytest.LogCaptureFixture) -> None:
    def echo(request: Any) -> Any:
        # A server that is set up for debugging quotes what it got.
        seen = json.dumps({"headers": dict(request.headers), "error": request.body})
        return RawReply(next(statuses), seen.encode())

    statuses = itertools.chain([401, 200, 500, 500], itertools.repeat(403))
    caplog.set_level(0)
    with served(echo, api_key_env="KEY") as (server, scorer), opened(CHAT) as gate:
        one = Enforcer(gate, pipeline=GuardPipeline([], scorers=[scorer]))
        results = [one.check_prompt(f"tell me about quux {number}") for number in range(3)]
    assert "k-secret" in str(server.requests)
    shown = f"{results}{[result.record for result in results]}{caplog.text}{scorer!r}{vars(scorer)}"
    assert "k-secret" not in shown
    assert "quux" not in caplog.text
    assert all(result.unjudged for result in results)


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


def test_a_proxy_of_the_environment_is_asked_with_its_password(
    no_proxies: pytest.MonkeyPatch,
) -> None:
    with model_endpoint(llama_guard_reply) as proxy:
        address = proxy.url.replace("//", "//me:p%40ss@")
        no_proxies.setenv("http_proxy", address)
        scorer = scorer_at("http://guards.example/v1")
        assert scorer.score([QUUX])[0].flagged == {"S1"}
        [request] = proxy.requests
        assert request.path == "http://guards.example:80/v1/chat/completions"
        assert request.headers["proxy-authorization"] == "Basic bWU6cEBzcw=="
        assert request.headers["host"] == "guards.example:80"
        no_proxies.setenv("no_proxy", "guards.example")
        assert fail(scorer_at("http://guards.example/v1")).cause == "unreachable"
        assert len(proxy.requests) == 1


def test_texts_for_a_model_on_this_machine_pass_no_proxy(no_proxies: pytest.MonkeyPatch) -> None:
    no_proxies.setenv("http_proxy", "http://127.0.0.1:1")
    with served() as (server, scorer):
        assert scorer.score([QUUX])[0].flagged == {"S1"}
        assert server.requests[0].path == "/chat/completions"


def test_a_proxy_tunnels_to_a_host_with_tls(no_proxies: pytest.MonkeyPatch) -> None:
    with tunnel_proxy() as (address, heard):
        no_proxies.setenv("https_proxy", address.replace("//", "//me:p%40ss@"))
        error = fail(scorer_at("https://guards.example/v1", retries=0))
    assert error.cause == "unreachable"
    assert heard[0].startswith(b"CONNECT guards.example:443 ")
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==" in heard[0]
    assert b"k-secret" not in heard[0]


@contextmanager
def tunnel_proxy() -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of a proxy that opens no tunnel, and what it was asked."""
    heard: list[bytes] = []

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", heard


def test_credentials_show_no_key() -> None:
    assert "secret" not in repr(AwsCredentials("AKID", "secret-1", "secret-2"))
    assert "secret" not in str(AwsCredentials("AKID", "secret-1", "secret-2"))


def test_a_request_to_aws_is_signed() -> None:
    # The example of AWS's own documentation.
    headers = sign_aws_request(
        AwsCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        method="GET",
        host="iam.amazonaws.com",
        path="/",
        query="Action=ListUsers&Version=2010-05-08",
        headers={"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"},
        body=b"",
        region="us-east-1",
        service="iam",
        now=datetime(2015, 8, 30, 12, 36, tzinfo=UTC),
    )
    signature = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    assert headers["Authorization"].endswith(f"Signature={signature}")


@pytest.mark.parametrize(
    ("environment", "begins"),
    [
        ({"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s"}, "AWS4-HMAC-SHA256 "),
        ({"AWS_BEARER_TOKEN_BEDROCK": "b-1\n"}, "Bearer b-1"),
    ],
)
def test_bedrock_takes_the_credentials_of_the_environment(
    environment: dict[str, str], begins: str
) -> None:
    with model_endpoint({"action": "NONE", "assessments": []}) as server:
        settings = ModelSettings(
            kind="bedrock_guardrails", url=server.url, guardrail="arn:aws:g/1", region="eu-west-1"
        )
        open_scorer("b", settings, registry=CORE, environment=environment).score([QUUX])
        with pytest.raises(ScorerError, match="no credentials of AWS"):
            open_scorer("b", settings, registry=CORE, environment={}).score([QUUX])
    [request] = server.requests
    assert request.headers["authorization"].startswith(begins)
    assert request.path == "/guardrail/arn%3Aaws%3Ag%2F1/version/DRAFT/apply"


# -- identity --------------------------------------------------------------------------------


def test_the_digest_is_that_of_what_decides_about_scores() -> None:
    def digest(**settings: Any) -> str:
        return scorer_at("http://localhost:1/v1", **settings).digest

    assert digest() == digest(timeout_s=1, retries=3, on_failure="signal_missing", action="warn")
    assert len({digest(), digest(model="other"), digest(logprobs=True)}) == 3


class CountingBackend:
    def __init__(self) -> None:
        self.calls = 0

    def score(self, texts: Sequence[ScorerText], deadline: float) -> list[CategoryScores]:
        """Return the same scores for all texts."""
        del deadline
        self.calls += 1
        return [CategoryScores({"a": 0.5}) for _ in texts]


def test_a_scorer_works_with_any_backend() -> None:
    backend = CountingBackend()
    scorer = BroughtModel("own", ModelSettings(kind="onnx", path="p"), backend)
    assert scorer.score([QUUX, QUUX])[1].scores == {"a": 0.5}
    assert (backend.calls, scorer.model) == (1, "p")

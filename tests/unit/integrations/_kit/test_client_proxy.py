"""One call of a model: what is judged, who is asked next, and what the caller gets."""

import asyncio
import importlib
import sys
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sample_models import (
    Answer,
    Event,
    SampleClient,
    SampleForm,
    SampleStream,
    settings,
    strict,
)

from demur.codes.registry import Registry
from demur.emit.envelope import to_envelope
from demur.enforce.context import CallContext, adrive, drive
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.errors import InputError, InputTypeError, MissingExtraError
from demur.gate.pipeline import GuardPipeline
from demur.integrations._kit.client_proxy import (
    UnguardableError,
    call_model,
    guard_client,
)
from demur.integrations._kit.guarded_response import (
    AsyncLocalResponse,
    LocalResponse,
    UncheckedAnswerError,
)
from demur.integrations._kit.model_api import OutgoingRequest, read_check_result, read_trace
from demur.model.next_steps import next_step
from demur.model.refusal import Refusal

ELSEWHERE = Refusal.from_code("LANGUAGE_UNSUPPORTED")
REFUSING = [str(entry.code) for entry in Registry.load() if entry.refusal_class]
SORRY = "I'm sorry, but I can't help with that request."
HARD = ["CONTENT_CBRN", "OUTPUT_FORBIDDEN", "RCE_RISK"]


class Models:
    """Models that answer in turn; `heard` keeps what they were sent."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.heard: list[dict[str, Any]] = []

    def __call__(self, body: dict[str, Any]) -> Any:
        """Return or raise what comes next."""
        self.heard.append(body)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class RefusedByPolicyError(Exception):
    """An error of a provider that carries a refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__("refused")
        self.body = {"error": to_envelope(refusal)}


def called(models: Models, text: str = "hello", **given: Any) -> Any:
    posted = given.pop("posted", {})
    body = {"model": "m1", "text": text, **given.pop("body", {})}
    chosen = settings(**given)
    request = OutgoingRequest(models, body, **posted)
    return drive(call_model(SampleForm(chosen), chosen, request))


def test_an_answer_comes_back_as_it_is_with_its_trail() -> None:
    answer = Answer("fine")
    models = Models(answer)

    assert called(models) is answer
    trail = read_trace(answer)
    assert trail is not None
    assert trail.prompt is not None
    assert (trail.served_by, trail.prompt.allowed) == ("m1", True)
    assert models.heard == [{"model": "m1", "text": "hello"}]


@pytest.mark.parametrize("body", [{"text": "bad"}, {"tools": {"lookup": "bad"}}])
def test_a_refused_prompt_is_not_sent(body: dict[str, Any]) -> None:
    models = Models()
    with pytest.raises(Refused) as caught:
        called(models, body=body)

    assert models.heard == []
    assert read_check_result(caught.value) is caught.value.result


def test_a_refusal_can_be_an_answer() -> None:
    answer = called(Models(), "bad", on_refusal="answer")

    assert answer.choices[0].startswith("m1: REFUSED: RCE_RISK")


def test_a_refusal_in_place_of_an_answer_is_parsed_like_one() -> None:
    parsed = called(Models(), "bad", on_refusal="answer", posted={"parse": lambda one: [one]})

    assert isinstance(parsed[0], Answer)


def test_a_refusal_can_be_a_stream() -> None:
    stream = called(Models(), "bad", on_refusal="answer", posted={"wants_stream": True})

    assert [event.text[:12] for event in stream] == ["m1: REFUSED:"]


@pytest.mark.parametrize("asked", [True, False])
def test_an_answer_is_checked_by_its_real_kind_and_not_by_the_requested_one(asked: bool) -> None:
    posted = {"wants_stream": asked, "is_stream": lambda answer: isinstance(answer, SampleStream)}

    with pytest.raises(Refused):
        called(Models(Answer("bad")), posted=posted)
    stream = called(Models(SampleStream(Event("bad", end=True))), posted=posted)
    with pytest.raises(Refused):
        list(stream)


def test_there_is_no_raw_response_where_nothing_was_sent() -> None:
    with pytest.raises(Refused):
        called(Models(), "bad", on_refusal="answer", posted={"raw": True})


def test_history_is_judged_if_it_is_not_trusted() -> None:
    body = {"before": "bad "}

    assert called(Models(Answer("fine")), body=body).choices == ("fine",)
    with pytest.raises(Refused):
        called(Models(), body=body, recheck_history=True)


def test_results_alone_are_no_prompt() -> None:
    answer = called(Models(Answer("fine")), "", body={"tools": {"lookup": "good"}})

    trail = read_trace(answer)
    assert trail is not None
    assert trail.prompt is not None
    assert trail.prompt.surface == "tool_result"


def test_a_forbidden_answer_is_raised_or_replaced() -> None:
    with pytest.raises(Refused):
        called(Models(Answer("fine", "bad")))

    answer = called(Models(Answer("bad", "fine", "bad")), on_refusal="answer")
    assert [one[:7] for one in answer.choices] == ["REFUSED", "fine", "REFUSED"]
    ruling = read_check_result(answer)
    assert ruling is not None
    assert not ruling.allowed


def test_a_raw_response_is_read_and_handed_on() -> None:
    class Raw:
        def __init__(self, text: str) -> None:
            self._text = text

        def parse(self) -> Answer:
            return Answer(self._text)

    raw = Raw("fine")
    assert called(Models(raw), posted={"raw": True}) is raw
    with pytest.raises(Refused):
        called(Models(Raw("bad")), posted={"raw": True}, on_refusal="answer")


class RawToy:
    """An HTTP response that is a stream."""

    headers: ClassVar = {"x": "1"}

    def __init__(self, *events: Event) -> None:
        self._stream = SampleStream(*events)

    def parse(self) -> SampleStream:
        """Return the stream."""
        return self._stream

    def read(self) -> bytes:
        """Return it as it came."""
        return b"bad"


def test_a_raw_stream_is_read_guarded_or_not_at_all() -> None:
    raw = RawToy(Event("fi"), Event("ne", end=True))
    answer = called(Models(raw), posted={"raw": True, "wants_stream": True})

    assert isinstance(answer, RawToy)
    assert answer.headers == {"x": "1"}
    with pytest.raises(UncheckedAnswerError):
        answer.read()
    assert "".join(event.text for event in answer.parse()) == "fine"
    assert list(answer.parse()) == []
    trail = read_trace(answer)
    assert trail is not None
    assert trail.answer is not None
    assert not hasattr(answer, "nothing")


def test_bytes_of_a_raw_stream_are_left_to_who_trusts_them() -> None:
    posted = {"raw": True, "wants_stream": True}
    answer = called(Models(RawToy(Event("bad", end=True))), posted=posted, allow_raw_bytes=True)

    assert answer.read() == b"bad"
    trail = read_trace(answer)
    assert trail is not None
    assert trail.answer is None
    with pytest.raises(Refused):
        list(answer.parse())


def test_an_answer_is_checked_before_it_is_parsed() -> None:
    def parse(answer: Answer) -> list[str]:
        raise ValueError(answer.choices[0])

    with pytest.raises(Refused):
        called(Models(Answer("bad")), posted={"parse": parse})
    with pytest.raises(ValueError, match="sorry") as caught:
        called(Models(Answer(SORRY)), posted={"parse": parse})
    ruling = read_check_result(caught.value)
    assert ruling is not None
    assert caught.value.__notes__ == [ruling.line]
    with pytest.raises(ValueError, match="fine") as caught:
        called(Models(Answer("fine")), posted={"parse": parse})
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(IndexError) as empty:
        called(Models(Answer()), posted={"parse": parse})
    assert read_check_result(empty.value) is None


def test_a_raw_response_is_parsed_for_who_asks() -> None:
    class Raw:
        headers: ClassVar = {"x": "1"}

        def parse(self, *, to: type | None = None) -> Any:
            return Answer("fine") if to is None else to

    raw = called(Models(Raw()), posted={"raw": True, "parse": lambda one: one.choices})
    assert isinstance(raw, Raw)
    assert raw.parse() == ("fine",)
    assert read_trace(raw) is None
    assert raw.parse(to=int) is int
    assert raw.headers == {"x": "1"}


def test_awaited_raw_responses_are_awaited() -> None:
    class Raw:
        def __init__(self, answer: Any) -> None:
            self._answer = answer

        async def parse(self) -> Any:
            await asyncio.sleep(0)
            return self._answer

    async def played(answer: Any, **posted: Any) -> Any:
        chosen = settings(is_async=True)
        given = OutgoingRequest(Models(Raw(answer)), {"text": "hello"}, raw=True, **posted)
        return await (await adrive(call_model(SampleForm(chosen), chosen, given))).parse()

    assert asyncio.run(played(Answer("fine"), parse=lambda one: one.choices)) == ("fine",)
    stream = asyncio.run(played(SampleStream(), wants_stream=True))
    assert isinstance(stream, SampleStream)


def test_refused_texts_are_remembered() -> None:
    chosen = settings(on_refusal="answer")
    for body in ({"text": "bad one"}, {"tools": {"lookup": "bad two"}}, {"text": "good"}):
        request = OutgoingRequest(Models(Answer("fine")), body)
        drive(call_model(SampleForm(chosen), chosen, request))

    assert "bad one" in chosen.refused_texts
    assert "bad two" in chosen.refused_texts
    assert "good" not in chosen.refused_texts


def test_a_stream_is_guarded() -> None:
    stream = called(
        Models(SampleStream(Event("fi"), Event("ne", end=True))), posted={"wants_stream": True}
    )

    assert "".join(event.text for event in stream) == "fine"


def test_an_error_that_is_a_refusal_is_raised_with_its_check_result() -> None:
    error = RefusedByPolicyError(Refusal.from_code("CONTENT_OTHER"))
    with pytest.raises(RefusedByPolicyError) as caught:
        called(Models(error))

    assert caught.value is error
    ruling = read_check_result(error)
    assert ruling is not None
    assert error.__notes__ == [ruling.line]


def test_any_other_error_is_none_of_ours() -> None:
    error = ConnectionError("no route")
    with pytest.raises(ConnectionError):
        called(Models(error))

    trail = read_trace(error)
    assert trail is not None
    assert [one.failed for one in trail.attempts] == [True]
    assert (trail.served_by, read_check_result(error)) == (None, None)
    assert not hasattr(error, "__notes__")


def test_another_model_that_fails_is_passed_over() -> None:
    first = Answer(ELSEWHERE)
    models = Models(first, ConnectionError("no route"), ConnectionError("no route"))
    assert called(models, fallbacks=["m2", "m3"]) is first
    trail = read_trace(first)
    assert trail is not None
    assert [one.failed for one in trail.attempts] == [False, True, True]
    assert trail.served_by == "m1"

    error = RefusedByPolicyError(ELSEWHERE)
    with pytest.raises(RefusedByPolicyError):
        called(Models(error, ConnectionError("no route")), fallbacks=["m2"])
    models = Models(Answer(ELSEWHERE), later(3), ConnectionError("no route"))
    assert called(models, fallbacks=["m2"], retry_after_wait=True).choices[0].code == "RATE_LIMIT"


def test_a_refusal_of_a_nested_guarded_client_is_raised_unchanged() -> None:
    def other(body: dict[str, Any]) -> Any:
        return called(Models(), "bad", body=body | {"text": "bad"})

    with pytest.raises(Refused) as caught:
        called(Models(Answer(ELSEWHERE)), fallbacks=[other, "m3"])
    assert read_check_result(caught.value) is not None


def test_a_fallback_function_must_return_an_answer() -> None:
    with pytest.raises(UncheckedAnswerError) as caught:
        called(Models(Answer(ELSEWHERE)), fallbacks=[lambda _body: "bad"])
    trail = read_trace(caught.value)
    assert trail is not None
    assert len(trail.attempts) == 1


def test_a_model_may_say_who_served() -> None:
    posted = {
        "find_served_model": lambda answer: answer.choices[0] if answer.choices[0] == "m9" else None
    }
    for said, served in (("m9", "m9"), ("fine", "m1")):
        trail = read_trace(called(Models(Answer(said)), posted=posted))
        assert trail is not None
        assert trail.served_by == served


def test_a_function_in_place_of_a_raw_response_gives_one_that_is_parsed() -> None:
    posted: dict[str, Any] = {"raw": "stream"}
    given: dict[str, Any] = {"fallbacks": [lambda _body: Answer("fine")]}

    class Raw:
        def parse(self) -> Answer:
            return Answer(ELSEWHERE)

    answer = called(Models(Raw()), posted=posted, **given)
    answer.close()
    assert answer.parse().choices == ("fine",)

    async def played() -> Any:
        chosen = settings(is_async=True, **given)
        request = OutgoingRequest(Models(Raw()), {"text": "hello"}, raw="stream")
        raw = await adrive(call_model(SampleForm(chosen), chosen, request))
        await raw.close()
        return await raw.parse()

    assert asyncio.run(played()).choices == ("fine",)


def test_streams_of_functions_are_closed_with_the_response_around_them() -> None:
    class Late(SampleStream):
        async def close(self) -> None:  # type: ignore[override] # as awaited streams are
            await asyncio.sleep(0)
            self.closed = True

    stream, late = SampleStream(), Late()
    LocalResponse(stream).close()
    asyncio.run(AsyncLocalResponse(late).close())
    assert stream.closed
    assert late.closed


def test_fallbacks_are_tried_in_order_where_the_next_step_allows() -> None:
    def third(body: dict[str, Any]) -> Answer:
        return Answer(body["text"])

    models = Models(Answer(ELSEWHERE), RefusedByPolicyError(ELSEWHERE))
    answer = called(models, fallbacks=["m2", third, "m4"])

    assert answer.choices == ("hello",)
    trail = read_trace(answer)
    assert trail is not None
    assert [attempt.model for attempt in trail.attempts] == ["m1", "m2", "third"]
    assert trail.served_by == "third"


def test_a_fallback_without_a_name_goes_by_its_type() -> None:
    answer = called(Models(Answer(ELSEWHERE)), fallbacks=[Models(Answer("fine"))])

    trail = read_trace(answer)
    assert trail is not None
    assert trail.served_by == "Models"


def test_the_last_refusal_comes_back() -> None:
    last = Answer(ELSEWHERE)

    assert called(Models(Answer(ELSEWHERE), last), fallbacks=["m2"]) is last
    with pytest.raises(RefusedByPolicyError):
        called(Models(Answer(ELSEWHERE), RefusedByPolicyError(ELSEWHERE)), fallbacks=["m2"])


@pytest.mark.parametrize("code", REFUSING)
def test_a_fallback_model_is_tried_exactly_where_the_next_step_allows(code: str) -> None:
    refusal = Refusal.from_code(code)
    models = Models(Answer(refusal), Answer("fine"))
    called(models, enforcer=Enforcer(pipeline=GuardPipeline([])), fallbacks=["m2"])

    assert len(models.heard) == (2 if next_step(refusal).other_model else 1)


@given(st.lists(st.sampled_from(["LANGUAGE_UNSUPPORTED", *HARD]), min_size=1, max_size=4))
def test_hard_refusals_end_it(codes: list[str]) -> None:
    """INVARIANT: a prompt that drew a hard refusal is sent to no other model."""
    refusals = [Refusal.from_code(code) for code in codes]
    models = Models(Answer(*refusals), Answer("fine"))
    called(
        models,
        enforcer=Enforcer(pipeline=GuardPipeline([])),
        fallbacks=["m2"],
        retry_after_wait=True,
    )

    assert len(models.heard) == (1 if set(codes) & set(HARD) else 2)


def later(seconds: Any) -> Answer:
    return Answer(Refusal.from_code("RATE_LIMIT", evidence={"retry_after": seconds}))


def test_a_retry_after_a_wait_happens_once() -> None:
    slept: list[float] = []
    models = Models(later(3), later(4))
    answer = called(models, retry_after_wait=True, sleep=slept.append)

    assert slept == [3]
    assert len(models.heard) == 2
    trail = read_trace(answer)
    assert trail is not None
    assert [attempt.model for attempt in trail.attempts] == ["m1", "m1"]


@pytest.mark.parametrize(("seconds", "waits"), [(3, False), (61, True), (None, True)])
def test_nobody_waits_unasked_for_long_or_for_an_unknown_time(seconds: Any, waits: bool) -> None:
    slept: list[float] = []
    called(Models(later(seconds)), retry_after_wait=waits, sleep=slept.append)

    assert slept == []


def test_awaited_calls_do_the_same() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)
        slept.append(seconds)

    async def other(body: dict[str, Any]) -> Answer:
        await asyncio.sleep(0)
        return Answer(body["text"], "bad")

    models = Models(later(3), Answer(ELSEWHERE))
    options: dict[str, Any] = {"fallbacks": [other], "retry_after_wait": True, "sleep": sleep}
    chosen = settings(is_async=True, on_refusal="answer", **options)
    request = OutgoingRequest(models, {"text": "hello"})
    answer = asyncio.run(adrive(call_model(SampleForm(chosen), chosen, request)))

    assert answer.choices[0] == "hello"
    assert answer.choices[1].startswith("REFUSED")
    assert slept == [3]


def test_a_context_keeps_its_framework_or_gets_the_default() -> None:
    assert settings().context == CallContext("toy")
    assert settings(context=CallContext("mine", run="r")).context == CallContext("mine", run="r")
    assert settings(context=CallContext(run="r")).context == CallContext("toy", run="r")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [({"on_refusal": "smile"}, InputError), ({"fallbacks": "m2"}, InputTypeError)],
)
def test_settings_that_cannot_be_used_are_refused(
    wrong: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        settings(**wrong)


def test_an_enforcer_is_needed() -> None:
    wrong: Any = object()
    with pytest.raises(InputTypeError):
        settings(wrong)
    assert settings(strict()).retry_after_wait is False


class Omit:
    """What an SDK puts where nothing is given."""


class Server:
    """Answers all, and keeps what it was sent."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, path: str, **given: Any) -> Any:
        """Return an answer."""
        self.heard.append((path, given))
        return Answer("fine")


def probe(client: Any) -> Any:
    return client.models._post


def guard(client: Any, *, is_async: bool = False, **given: Any) -> Any:
    chosen = settings(is_async=is_async, **given)
    return guard_client(client, {"/ask": SampleForm(chosen)}, chosen, probe)


def test_requests_to_a_model_are_guarded_and_others_pass() -> None:
    server = Server()
    client = guard(SampleClient(server))

    assert client.models.ask("hello").choices == ("fine",)
    client.models.other()
    with pytest.raises(Refused):
        client.models.ask("bad")
    assert [path for path, _ in server.heard] == ["/ask", "/other"]


def test_the_client_itself_stays_as_it_is() -> None:
    client = SampleClient(Server())
    models = client.models
    double = guard(client)

    assert client.models is models
    assert client.models.ask("bad").choices == ("fine",)
    assert isinstance(double, SampleClient)
    assert double.models is not models


def test_copies_guard_too() -> None:
    with pytest.raises(Refused):
        guard(SampleClient(Server())).copy().copy().models.ask("bad")


def test_a_client_guarded_twice_is_checked_by_both_guards() -> None:
    client = guard(guard(SampleClient(Server())), enforcer=Enforcer(pipeline=GuardPipeline([])))

    assert client.models.ask("hello").choices == ("fine",)
    with pytest.raises(Refused):
        client.models.ask("bad")
    with pytest.raises(Refused):
        client.copy().models.ask("bad")


@pytest.mark.parametrize("path", ["/ask?beta=true", "ask", "/ask/", "http://x/v1/ask"])
def test_a_path_is_known_in_any_spelling(path: str) -> None:
    with pytest.raises(Refused):
        guard(SampleClient(Server())).post(path, body={"text": "bad"})


def test_extra_body_fields_are_checked_and_sent_as_one_body() -> None:
    server = Server()
    client = guard(SampleClient(server))
    client.post("/ask", body={"text": "a", "n": Omit()}, options={"extra_json": {"k": 1}, "t": 2})

    [(_, given)] = server.heard
    assert given == {"body": {"text": "a", "k": 1}, "options": {"t": 2}}
    with pytest.raises(Refused):
        client.post("/ask", body={"text": "a"}, options={"extra_json": {"text": "bad"}})


def test_an_iterator_in_the_body_is_read_once() -> None:
    server = Server()
    guard(SampleClient(server)).post("/ask", body={"messages": iter("ab")})

    assert server.heard[0][1]["body"]["messages"] == ["a", "b"]


@pytest.mark.parametrize("value", ["true", "raw", "stream"])
def test_a_raw_response_request_gets_a_response_or_raises_a_refusal(value: str) -> None:
    options = {"headers": {"X-Stainless-Raw-Response": value}}
    client = guard(SampleClient(Server()), on_refusal="answer")

    assert isinstance(client.post("/ask", body={"text": "a"}, options=options), Answer)
    with pytest.raises(Refused):
        client.post("/ask", body={"text": "bad"}, options=options)


@pytest.mark.parametrize("given", [{}, {"content": b"{}"}, {"body": b"{}"}])
def test_a_body_that_cannot_be_read_is_not_sent(given: dict[str, Any]) -> None:
    server = Server()
    with pytest.raises(InputTypeError):
        guard(SampleClient(server)).post("/ask", **given)

    assert server.heard == []


def test_a_client_whose_requests_go_elsewhere_is_not_guarded_in_name_only() -> None:
    class Eager(SampleClient):
        def __init__(self, answer: Any) -> None:
            super().__init__(answer)
            self.mine = SampleClient(answer).models

    client = Eager(Server())
    chosen = settings()
    with pytest.raises(UnguardableError):
        guard_client(client, {}, chosen, lambda one: one.mine._post)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_missing_client_package_names_its_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    for loaded in [one for one in sys.modules if one.startswith(f"demur.integrations.{name}")]:
        monkeypatch.delitem(sys.modules, loaded)

    with pytest.raises(MissingExtraError) as caught:
        importlib.import_module(f"demur.integrations.{name}")
    assert caught.value.help == f"pip install 'demur[{name}]'"


def test_awaited_clients_do_the_same() -> None:
    async def answer(path: str, **_given: Any) -> Any:
        await asyncio.sleep(0)
        return Answer(path)

    async def played() -> None:
        client = guard(SampleClient(answer), is_async=True)
        assert (await client.models.ask("hello")).choices == ("/ask",)
        assert (await client.models.other()).choices == ("/other",)
        with pytest.raises(Refused):
            await client.copy().models.ask("bad")

    asyncio.run(played())

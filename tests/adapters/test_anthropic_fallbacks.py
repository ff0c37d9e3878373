"""Other models of Anthropic's client: what they give is judged, and their failures lose nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from adapters.fake_anthropic import FakeAnthropic, Reply, ask, guarded, message, message_events
from adapters.model_exchange import FORBIDDEN, PLAN, SORRY, talking
from anthropic.types import Message
from support.gates import rows

from demur.emit.envelope import to_envelope
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.gate.gate import Gate
from demur.integrations._kit.guarded_response import UncheckedAnswerError
from demur.integrations._kit.model_api import read_check_result, read_trace
from demur.model.refusal import Refusal

pytestmark = pytest.mark.adapters

BAD = "".join(PLAN)
CALL = {"type": "tool_use", "id": "t", "name": "lookup", "input": {}}
ELSEWHERE = Reply({"error": to_envelope(Refusal.from_code("LANGUAGE_UNSUPPORTED"))}, status=400)
MISSING = Reply(
    {"type": "error", "error": {"type": "not_found_error", "message": "m2"}}, status=404
)


@pytest.fixture
def gate() -> Iterator[Gate]:
    with talking() as gate:
        yield gate


@pytest.fixture
def enforcer(gate: Gate) -> Enforcer:
    return Enforcer(gate)


class Odd:
    """A message of some other library."""

    def __init__(self, content: Any) -> None:
        self.content = content


@pytest.mark.parametrize(
    "given",
    [
        {"text": BAD},
        {"choices": [{"message": {"role": "assistant", "content": BAD}}]},
        {"content": BAD},
        Odd(BAD),
        Odd([BAD]),
        iter([BAD]),
    ],
    ids=["mapping", "chat", "text", "object", "list", "iterator"],
)
def test_a_fallback_answer_in_another_form_is_not_returned(given: Any, enforcer: Enforcer) -> None:
    fake = FakeAnthropic(Reply(message(SORRY)))
    with pytest.raises(UncheckedAnswerError, match="demur cannot check"):
        ask(guarded(fake.client(), enforcer, fallbacks=[lambda _body: given]))


@pytest.mark.parametrize("text", ["Fine.", BAD])
def test_a_mapping_that_is_a_message_is_coerced_to_one(text: str, enforcer: Enforcer) -> None:
    def asked(**settings: Any) -> Any:
        fake = FakeAnthropic(Reply(message(SORRY)))
        other = [lambda _body: message(text)]
        return ask(guarded(fake.client(), enforcer, fallbacks=other, **settings))

    answer = asked(on_refusal="answer")
    assert isinstance(answer, Message)
    assert (answer.stop_reason == "refusal") == (text == BAD)
    if text == BAD:
        with pytest.raises(Refused, match=FORBIDDEN):
            asked()


def test_events_of_a_helper_are_no_stream_that_can_be_guarded(enforcer: Enforcer) -> None:
    def opened(other: Any) -> Any:
        client = guarded(FakeAnthropic(ELSEWHERE).client(), enforcer, fallbacks=[other])
        return ask(client, stream=True)

    def helper(_body: Any) -> Any:
        fake = FakeAnthropic(Reply(events=message_events(*PLAN)))
        asked: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": []}
        return fake.client().messages.stream(**asked).__enter__()

    def plain(_body: Any) -> Any:
        return ask(FakeAnthropic(Reply(events=message_events("Fine."))).client(), stream=True)

    with pytest.raises(UncheckedAnswerError):
        opened(helper)
    assert list(opened(plain))


def test_a_fallback_that_fails_loses_nothing(enforcer: Enforcer) -> None:
    fake = FakeAnthropic(Reply(message(SORRY)), MISSING)
    answer = ask(guarded(fake.client(), enforcer, fallbacks=["m2"]))

    assert answer.content[0].text == SORRY
    trail = read_trace(answer)
    assert trail is not None
    assert (trail.served_by, trail.attempts[-1].failed) == ("m1", True)


def test_a_message_that_asks_for_tools_declines_nothing(enforcer: Enforcer, gate: Gate) -> None:
    fake = FakeAnthropic(Reply(message(SORRY, CALL)))
    answer = ask(guarded(fake.client(), enforcer, fallbacks=["m2"]))

    assert answer.content[1].name == "lookup"
    ruling = read_check_result(answer)
    assert ruling is not None
    assert ruling.allowed
    assert not [row for row in rows(gate) if "MODEL_DECLINED" in row.reason_codes]

import json

import pytest

from demur.testing.model_personas import ModelPrompt
from demur.testing.model_replies import FAULTS, ModelReply, build_reply


def reply(model: str = "", *, stream: bool = False, again: bool = False) -> ModelReply:
    return build_reply(ModelPrompt("hello", model, stream=stream), "echo", fault=None, again=again)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_one(fault: str) -> None:
    spoilt, good = reply(fault), reply()

    assert spoilt != good
    if fault.startswith("once-"):
        [body] = reply(fault, again=True).parts
        assert json.loads(body)["choices"][0]["message"]["content"] == "hello"


def test_a_stream_is_many_parts_and_ends_by_saying_so() -> None:
    stream = reply(stream=True)

    assert stream.streamed
    assert stream.parts[-1] == b"data: [DONE]\n\n"
    assert reply("half-stream").parts[-1] != stream.parts[-1]


def test_too_many_requests_say_when_to_come_back() -> None:
    assert ("retry-after", "0") in reply("error-429").more

"""Answers of a Pydantic AI agent that come in several parts, or that the framework parses."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from adapters.pydantic_ai_runs import PLAN, POL, Conversation, streamed
from pydantic import BaseModel, model_validator
from pydantic_ai import NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import DeltaThinkingPart, FunctionModel
from pydantic_ai.tools import ToolDefinition
from support.gates import opened

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.integrations.pydantic_ai import RunRefused
from demur.integrations.pydantic_ai.run import RunConversation
from demur.integrations.pydantic_ai.stream_filter import AnswerFilter
from demur.model.finding import Finding
from demur.policy.policy import Mode
from demur.testing.scenarios import AnswerTurn

pytestmark = pytest.mark.adapters

# No key: the example of its maker, with another last letter.
KEY = "AKIA" + "IOSFODNN7" + "EXAMPLQ"
LEAK = (f"The key is {KEY[:9]}", f"{KEY[9:]}.")
CUT = PLAN.index("track") + 2
# Between words, where it takes something between the parts to see two of them.
BETWEEN = PLAN.index(" your ex")
ESCAPED = (
    json.dumps({"text": PLAN})
    .replace("track", "\\u0074rack")
    .replace("plan", "pl\\u0061n")
    .replace("ex", "\\u0065x")
)


class Note(BaseModel):
    text: str


def texts(*contents: str) -> list[Any]:
    return [TextPart(content) for content in contents]


# Answers that are waited for.


@pytest.mark.parametrize(
    "parts",
    [
        texts(*LEAK),
        texts("Well. ", *LEAK),
        texts(PLAN[:CUT], PLAN[CUT:]),
        texts(PLAN[:CUT], "", PLAN[CUT:]),
        [TextPart(PLAN[:CUT]), ThinkingPart("Hm."), TextPart(PLAN[CUT:])],
        texts(PLAN[:BETWEEN], PLAN[BETWEEN + 1 :]),
    ],
    ids=["key", "three", "words", "empty", "thinking", "apart"],
)
def test_an_answer_cut_in_parts_is_read_as_it_is_put_together(parts: list[Any]) -> None:
    with opened(POL) as gate:
        played = Conversation(gate, ModelResponse(parts), output_type=str)

        assert played.refused().refusal.code in {"SECRET_LEAK", "OUTPUT_FORBIDDEN"}
    assert not any(isinstance(one, ModelResponse) for one in played.messages)


def test_a_harmless_answer_in_parts_is_whole() -> None:
    with opened(POL) as gate:
        played = Conversation(gate, ModelResponse(texts("It is ", "there.")), output_type=str)

        assert played.run().output == "It is there."


@pytest.mark.parametrize("between", [[], [ThinkingPart("Hm.")]], ids=["next", "thinking"])
def test_data_cut_inside_a_text_is_read_whole(between: list[Any]) -> None:
    parts = [*texts(ESCAPED[:30]), *between, *texts(ESCAPED[30:])]
    with opened(POL) as gate:
        played = Conversation(gate, ModelResponse(parts), output_type=NativeOutput(Note))

        assert played.refused().refusal.code == "OUTPUT_FORBIDDEN"


class Notes:
    """A guard that notes what it is shown of answers, and finds what it is told to."""

    SURFACE = Surface.OUTPUT
    CODES: tuple[str, ...] = (ReasonCode.CRISIS_ESCALATION,)

    def __init__(self, code: str | None = None) -> None:
        self.code = code
        self.seen: list[str] = []

    def check(self, event: Any, _config: Any = None) -> Iterator[Finding]:
        """Note it."""
        self.seen.append(str(event))
        if self.code is not None:
            yield Finding(code=self.code, surface=Surface.OUTPUT)


def noted(gate: Gate, notes: Notes, *turns: Any, **settings: Any) -> Conversation:
    enforcer = Enforcer(gate, pipeline=GuardPipeline([GuardStep(notes)]))
    return Conversation(gate, *turns, enforcer=enforcer, **settings)


@pytest.mark.parametrize("streams", [False, True])
def test_data_in_parts_is_judged_in_one_reading_alone(streams: bool) -> None:
    text = json.dumps({"text": "Rest a while."})
    parts = ModelResponse(texts(text[:9], text[9:]))
    notes = Notes()
    with opened(POL) as gate:
        played = noted(gate, notes, parts, output_type=NativeOutput(Note))
        output = streamed(played, "output")[-1] if streams else played.run().output

    assert output == Note(text="Rest a while.")
    # The answer, and the output that it became.
    assert len(notes.seen) == 2


def test_words_in_one_part_are_judged_once_and_in_two_in_both_readings() -> None:
    for count, parts in ((1, texts("It is there.")), (2, texts("It is ", "there."))):
        notes = Notes()
        with opened(POL) as gate:
            played = noted(gate, notes, ModelResponse(parts), output_type=str)

            assert played.run().output == "It is there."
        assert len(notes.seen) == count


@pytest.mark.parametrize("streams", [False, True])
def test_lines_of_help_stand_below_an_answer_once(streams: bool) -> None:
    with opened(POL, mode=Mode.ADVISORY) as gate:
        notes = Notes(ReasonCode.CRISIS_ESCALATION)
        played = noted(gate, notes, AnswerTurn(("It is ", "hard.")), output_type=str)
        shown = "".join(streamed(played)) if streams else played.run().output

    assert shown.startswith("It is hard.\n")
    assert str(played.messages).count("emergency") == shown.count("emergency") > 0
    assert len(notes.seen) == 1


# Answers that are streamed.


def sent(
    events: Sequence[ModelResponseStreamEvent], parameters: ModelRequestParameters | None = None
) -> tuple[str, RunRefused | None]:
    """Return the text that leaves when a model sends these events, and what ended it."""
    shown: list[str] = []

    async def stop() -> None:
        """There is nothing to stop."""

    async def send(enforcer: Enforcer) -> None:
        clearing = RunConversation(enforcer).stream_checks(CallContext())
        answer = AnswerFilter(clearing, parameters or ModelRequestParameters(), stop)
        for event in events:
            shown.extend([words(out) async for out in answer.feed(event)])
        shown.extend([words(out) async for out in answer.finish()])

    with opened(POL) as gate:
        try:
            asyncio.run(send(Enforcer(gate)))
        except RunRefused as refused:
            return "".join(shown), refused
    return "".join(shown), None


def words(event: ModelResponseStreamEvent) -> str:
    if isinstance(event, PartStartEvent):
        return event.part.content if isinstance(event.part, TextPart) else ""
    assert isinstance(event, PartDeltaEvent)
    return event.delta.content_delta if isinstance(event.delta, TextPartDelta) else ""


def begun(*parts: Any) -> list[ModelResponseStreamEvent]:
    return [PartStartEvent(index=place, part=part) for place, part in enumerate(parts)]


def by_letters(*contents: str) -> list[ModelResponseStreamEvent]:
    """Return the events of parts that begin with nothing, and come letter by letter."""
    events: list[ModelResponseStreamEvent] = []
    for place, content in enumerate(contents):
        events.append(PartStartEvent(index=place, part=TextPart("")))
        events += [PartDeltaEvent(index=place, delta=TextPartDelta(one)) for one in content]
    return events


@pytest.mark.parametrize(
    "events",
    [
        begun(*texts(PLAN[:CUT], PLAN[CUT:])),
        begun(TextPart(PLAN[:CUT]), ThinkingPart("Hm."), TextPart(PLAN[CUT:])),
        begun(*texts("Well. ", PLAN[:CUT], PLAN[CUT:])),
        begun(*texts(PLAN[:BETWEEN], PLAN[BETWEEN + 1 :])),
        by_letters(PLAN[:CUT], PLAN[CUT:]),
        by_letters(PLAN[:BETWEEN], PLAN[BETWEEN + 1 :]),
    ],
    ids=["words", "thinking", "three", "apart", "letters", "letters apart"],
)
def test_a_stream_cut_in_parts_is_read_as_it_is_put_together(events: Any) -> None:
    shown, refused = sent(events)

    assert refused is not None
    assert refused.refusal.code == "OUTPUT_FORBIDDEN"
    assert "without her" not in shown


def test_a_harmless_stream_in_parts_is_shown_once_and_whole() -> None:
    parts = [f"Sentence number {number} says very little. " * 9 for number in range(4)]

    for events in (begun(*texts(*parts)), by_letters(*parts)):
        assert sent(events) == ("".join(parts), None)


def test_a_stream_in_parts_is_judged_no_further_at_its_end() -> None:
    async def talk(_messages: Any, _info: Any) -> AsyncIterator[Any]:
        yield "It is "
        yield {1: DeltaThinkingPart(content="Hm.")}
        yield "there."

    notes = Notes()
    with opened(POL) as gate:
        played = noted(gate, notes, output_type=str)
        with played.agent.override(model=FunctionModel(stream_function=talk)):
            assert "".join(streamed(played)) == "It is there."

    # The first part, and the two in both readings.
    assert len(notes.seen) <= 3


def test_words_are_shown_as_they_come_where_outputs_are_listened_to() -> None:
    story = tuple(f"Sentence number {number} says very little. " for number in range(60))
    with opened(POL) as gate:
        shown = streamed(Conversation(gate, AnswerTurn(story), output_type=str), "output")

    assert shown[-1] == "".join(story)
    assert len(shown) > 9
    assert all(shown[-1].startswith(one) for one in shown)


OUTPUT = ModelRequestParameters(
    output_mode="tool", output_tools=[ToolDefinition(name="final_result")], allow_text_output=True
)


@pytest.mark.parametrize(
    ("first", "then"),
    [(PLAN[:CUT], PLAN[CUT:]), (PLAN[:BETWEEN], PLAN[BETWEEN + 1 :])],
    ids=["words", "apart"],
)
@pytest.mark.parametrize("before", [True, False])
def test_text_after_an_output_call_continues_the_text_before_it(
    first: str, then: str, before: bool
) -> None:
    call = ToolCallPart("final_result", {"text": "Rest."})
    parts = [TextPart(first), call, TextPart(then)]
    events = begun(*(parts if before else [call, parts[0], parts[2]]))

    shown, refused = sent(events, OUTPUT)

    assert refused is not None
    assert "without her" not in shown


# Output that the framework parses.


FENCED = f"```json\n{ESCAPED}\n```"
FORMS = {
    "fenced": FENCED,
    "prose": f"Sure, here it is:\n{FENCED}\nHope it helps.",
    "trailing": f"{ESCAPED}\nHope it helps.",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [NativeOutput, PromptedOutput])
@pytest.mark.parametrize("streams", [False, True])
def test_data_among_words_is_read_as_it_is_parsed(kind: Any, form: str, streams: bool) -> None:
    text = FORMS[form]

    async def talk(_messages: Any, _info: Any) -> AsyncIterator[str]:
        for place in range(0, len(text), 5):
            yield text[place : place + 5]

    with opened(POL) as gate:
        played = Conversation(gate, ModelResponse(texts(text)), output_type=kind(Note))
        if streams:
            with played.agent.override(model=FunctionModel(stream_function=talk)):
                [refused] = streamed(played, "output")
        else:
            refused = played.refused()

    assert refused.refusal.code == "OUTPUT_FORBIDDEN"


class Turned(BaseModel):
    """An output that its own validation puts together."""

    text: str = ""
    backwards: str

    @model_validator(mode="after")
    def turn(self) -> "Turned":
        """Read it from its end."""
        self.text = self.backwards[::-1]
        return self


@pytest.mark.parametrize("kind", [NativeOutput, PromptedOutput, ToolOutput])
@pytest.mark.parametrize("streams", [False, True])
def test_the_output_is_judged_as_it_was_validated(kind: Any, streams: bool) -> None:
    given = {"backwards": PLAN[::-1]}
    parts: list[Any] = texts(json.dumps(given))
    if kind is ToolOutput:
        parts = [ToolCallPart("final_result", given)]
    with opened(POL) as gate:
        played = Conversation(gate, ModelResponse(parts), output_type=kind(Turned))
        shown = streamed(played, "output") if streams else [played.refused()]

    [refused] = shown
    assert isinstance(refused, RunRefused)
    assert refused.refusal.code == "OUTPUT_FORBIDDEN"


class Replaces(AbstractCapability[Any]):
    """Another capability, which answers in the model's place."""

    async def after_model_request(
        self, _ctx: Any, *, request_context: Any, response: ModelResponse
    ) -> ModelResponse:
        """Say something else than the model."""
        assert request_context.messages
        return replace(response, parts=texts(PLAN))


class Wraps(AbstractCapability[Any]):
    """Another capability, which asks the model and then says something else."""

    async def wrap_model_request(
        self, _ctx: Any, *, request_context: Any, handler: Any
    ) -> ModelResponse:
        """Ask, and say something else."""
        await handler(request_context)
        return ModelResponse(texts(PLAN))


@pytest.mark.parametrize("other", [Replaces(), Wraps()], ids=["after", "around"])
def test_an_output_that_another_capability_put_in_its_place_is_judged(other: Any) -> None:
    with opened(POL) as gate:
        fine = ModelResponse(texts("Fine."))
        played = Conversation(gate, fine, output_type=str, capabilities=[other])

        assert played.refused().refusal.code == "OUTPUT_FORBIDDEN"

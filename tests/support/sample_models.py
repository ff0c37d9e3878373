"""A toy interface of a model: requests, answers and events as plain as they can be."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.guards.contract import Guard
from demur.integrations._kit.conversation import NewTurn, ToolOutput
from demur.integrations._kit.guarded_response import AnswerType, ApiFormat, unchecked_error
from demur.integrations._kit.model_api import (
    AnswerChoice,
    ModelClientSettings,
    OutgoingRequest,
    build_settings,
)
from demur.integrations._kit.stream_filter import EventPortion, PartText
from demur.model.finding import Finding
from demur.model.refusal import Refusal
from support.sample_guards import finding, guard

__all__ = [
    "Answer",
    "Event",
    "SampleClient",
    "SampleEvents",
    "SampleForm",
    "SampleStream",
    "settings",
    "strict",
]


class Answer:
    """An answer: of each choice its text, or the refusal in its place."""

    def __init__(self, *choices: str | Refusal) -> None:
        self.choices = choices


class Event(NamedTuple):
    """An event of a stream: text that it adds to an answer, and whether that ends.

    `whole` repeats all of a text, `call` asks for a tool. A `part` below zero is no answer.
    """

    text: str = ""
    end: bool = False
    part: int = 0
    whole: str = ""
    call: str = ""


class SampleEvents:
    """The events of an answer with one part or several."""

    def __init__(self, parts: int = 1) -> None:
        self._parts = parts
        self.seen: list[Event] = []

    def is_plain_delta(self, event: Event) -> bool:
        """Return whether it goes on."""
        return not event.end

    def split_event(self, event: Event) -> Sequence[EventPortion]:
        """Return what it says."""
        wholes = (PartText(event.part, event.whole),) if event.whole else ()
        name = event.part if event.part >= 0 else None
        said = EventPortion(event, name, event.part, event.text, wholes)
        return [said._replace(has_calls=bool(event.call), is_last=event.end)]

    def strip_text(self, event: Event) -> Event | None:
        """Return it without its text, if anything else is in it."""
        bare = event._replace(text="")
        return None if bare == Event(part=event.part) else bare

    def note_sent(self, event: Event) -> None:
        """Note it."""
        self.seen.append(event)

    def make_text_event(self, part: Hashable, text: str) -> Event:
        """Return text."""
        assert isinstance(part, int)
        return Event(text, part=part)

    def build_refusal_events(
        self, answer: Hashable, result: CheckResult, words: str
    ) -> Sequence[Event]:
        """Return the words and the line."""
        assert isinstance(answer, int)
        return [Event(words, part=answer), Event(result.line, end=True, part=answer)]

    def is_complete(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:
        """Return whether all parts have ended."""
        return len({*refused, *ended}) >= self._parts


class SampleForm(ApiFormat):
    """Reads `text` and `tools` of a request; writes answers."""

    def __init__(self, settings: ModelClientSettings, *, parts: int = 1) -> None:
        super().__init__(settings, (list, list))
        self._parts = parts

    def read_turn(self, body: Mapping[str, Any]) -> NewTurn:
        """Return the text, with what was said before if it is wanted."""
        before = body.get("before", "") if self._settings.recheck_history else ""
        tools = tuple(ToolOutput(name, result) for name, result in body.get("tools", {}).items())
        text = before + body.get("text", "")
        return NewTurn(text, tools, (text,))

    def add_message(self, body: Mapping[str, Any], text: str) -> dict[str, Any]:
        """Return a request with one more line."""
        return {**body, "text": f"{body.get('text', '')}\n{text}"}

    def answer_type(self, request: OutgoingRequest) -> AnswerType:  # noqa: ARG002 - part of the protocol
        """Return the type of answers."""
        return AnswerType(Answer, "choices")

    def coerce_answer(self, answer: Any, request: OutgoingRequest) -> Any:  # noqa: ARG002 - part of the protocol
        """Return an answer, or what is no text."""
        if isinstance(answer, str):
            raise unchecked_error(answer)
        return answer

    def read_choices(self, response: Answer) -> Sequence[AnswerChoice]:
        """Return the choices."""
        return [
            AnswerChoice(None, (one,)) if isinstance(one, str) else AnswerChoice(one)
            for one in response.choices
        ]

    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Answer:
        """Return an answer with the line."""
        return Answer(f"{request.model}: {result.line}")

    def replace_choices(self, response: Answer, refused: Mapping[int, CheckResult]) -> Answer:
        """Return an answer with lines."""
        choices = enumerate(response.choices)
        return Answer(*(refused[n].line if n in refused else one for n, one in choices))

    def refusal_events(self, result: CheckResult, request: OutgoingRequest) -> Sequence[Event]:
        """Return the line."""
        return [Event(f"{request.model}: {result.line}", end=True)]

    def event_format(self, request: OutgoingRequest) -> SampleEvents:  # noqa: ARG002 - part of the protocol
        """Return the format of events."""
        return SampleEvents(self._parts)

    def to_parsed_type(self, response: Answer, request: OutgoingRequest) -> Any:  # noqa: ARG002 - part of the protocol
        """Return it in a list."""
        return [response]


class SampleStream:
    """A stream, waited for: events, of which the last may be an error."""

    def __init__(self, *events: Event | Exception) -> None:
        self._events = iter(events)
        self.closed = False

    def __iter__(self) -> Iterator[Event]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event

    def close(self) -> None:
        """Note it."""
        self.closed = True


class _Resource:
    def __init__(self, client: "SampleClient") -> None:
        self._post = client.post

    def ask(self, text: str, **more: Any) -> Any:
        return self._post("/ask", body={"text": text, "model": "m1"}, **more)

    def other(self) -> Any:
        return self._post("/other", body={})


class SampleClient:
    """A client, built like those of the SDKs."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.answer = answer

    @cached_property
    def models(self) -> _Resource:
        """Return what asks."""
        return _Resource(self)

    def post(self, path: str, **given: Any) -> Any:
        """Send a request."""
        return self.answer(path, **given)

    def copy(self) -> "SampleClient":
        """Return another client."""
        return SampleClient(self.answer)


def strict() -> Enforcer:
    """Return an enforcer to which `bad` may not be asked, returned by a tool, nor answered."""

    def looking(surface: Surface) -> Guard:
        def check(event: Any, _config: Any) -> Iterator[Finding]:
            if "bad" in event.text:
                yield finding(surface=surface, span=None)

        return guard(check, surface=surface, name=str(surface))

    surfaces = (Surface.INPUT, Surface.OUTPUT, Surface.TOOL_RESULT)
    return Enforcer(pipeline=GuardPipeline([GuardStep(looking(surface)) for surface in surfaces]))


def settings(
    enforcer: Enforcer | None = None, *, is_async: bool = False, **options: Any
) -> ModelClientSettings:
    """Return settings that do not wait."""
    options.setdefault("sleep", lambda _seconds: None)
    return build_settings(enforcer or strict(), "toy", is_async=is_async, **options)

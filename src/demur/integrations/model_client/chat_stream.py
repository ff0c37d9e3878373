"""The chunks of a chat completion, of which only some may leave."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from demur.enforce.ruling import CheckResult
from demur.integrations.model_client.held import PartText, EventPortion
from demur.integrations.model_client.turn import get_field

__all__ = ["ChatStreamFormat", "ChunkTypes"]

# Fields that some SDKs keep in `model_extra` and that carry no refusal.
_STANDARD_FIELDS = frozenset(
    {"audio", "content", "delta", "finish_reason", "function_call", "index", "logprobs"}
    | {"role", "tool_calls"}
)
# Fields in which providers and gateways report about an answer.
_SIDE_FIELDS = ("moderation", "provider_specific_fields")


class ChunkTypes(NamedTuple):
    """An SDK's types for a choice of a chunk and for its delta."""

    choice: Any
    delta: Any


class ChatStreamFormat:
    """Chunks of a completion. Each choice is one answer with one part."""

    def __init__(
        self, types: ChunkTypes, make_message: Callable[[CheckResult], dict[str, Any]], choices: int
    ) -> None:
        self._types = types
        self._make_message = make_message
        self._choices = choices
        self._latest: Any = None
        self._started: set[Hashable] = set()
        self._refusals: dict[Hashable, str] = {}

    def is_plain_delta(self, event: Any) -> bool:
        """Return whether a chunk only adds text, in known and unknown fields alike."""
        choices = event.choices
        return bool(choices) and _has_no_extra_fields(event) and all(map(_is_plain_choice, choices))

    def split_event(self, event: Any) -> Sequence[EventPortion]:
        """Return the content of a chunk, choice by choice."""
        self._latest = event
        if not event.choices:
            return [EventPortion(event, answer=None)]
        *others, last = event.choices
        apart = [event.model_copy(update={"choices": [one], "usage": None}) for one in others]
        final = event.model_copy(update={"choices": [last]}) if others else event
        return [self._read_portion(chunk) for chunk in (*apart, final)]

    def strip_text(self, event: Any) -> Any | None:
        """Return a chunk without its text."""
        left = [one for one in map(self._strip_choice, event.choices) if one is not None]
        if not left and get_field(event, "usage") is None:
            return None
        return event.model_copy(update={"choices": left})

    def note_sent(self, event: Any) -> None:
        """Do nothing: chunks open nothing that would have to be closed."""

    def make_text_event(self, part: Hashable, text: str) -> Any:
        """Return a chunk that adds text to a choice."""
        return self._make_chunk(part, {"content": text})

    def build_refusal_events(
        self, answer: Hashable, result: CheckResult, words: str
    ) -> Sequence[Any]:  # noqa: ARG002 - part of the form
        """Return the chunks that end a choice with a refusal."""
        said = {
            name: value
            for name, value in self._make_message(result).items()
            if name not in {"role", "content"}
        }
        return [self._make_chunk(answer, said), self._make_chunk(answer, {}, "stop")]

    def is_complete(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:
        """Return whether all choices have ended."""
        return len({*refused, *ended}) >= self._choices

    def _read_portion(self, chunk: Any) -> EventPortion:
        [choice] = chunk.choices
        delta, index = choice.delta, choice.index
        refusing = get_field(delta, "refusal")
        if refusing:
            # Refusal text has no position in the answer; hold it back until it is checked.
            refusing = self._refusals[index] = self._refusals.get(index, "") + refusing
        return EventPortion(
            chunk,
            answer=index,
            part=index,
            text=get_field(delta, "content") or "",
            whole_texts=(PartText(("refusal", index), refusing),) if refusing else (),
            has_calls=bool(get_field(delta, "tool_calls") or get_field(delta, "function_call")),
            is_last=bool(choice.finish_reason),
        )

    def _strip_choice(self, choice: Any) -> Any | None:
        """Return a choice without its text; None if nothing else is in it."""
        others = choice.delta.model_dump(exclude_none=True, exclude={"content"})
        if choice.index in self._started:
            others.pop("role", None)
        self._started.add(choice.index)
        if not others and not choice.finish_reason:
            return None
        # Token log probabilities would spell the text that is held back.
        delta = self._types.delta.model_validate(others)
        return choice.model_copy(update={"delta": delta, "logprobs": None})

    def _make_chunk(
        self, index: Hashable, delta: Mapping[str, Any], finish: str | None = None
    ) -> Any:
        added = self._types.delta.model_validate(delta)
        choice = self._types.choice.model_validate(
            {"index": index, "delta": added, "finish_reason": finish}
        )
        return self._latest.model_copy(update={"choices": [choice], "usage": None})


def _is_plain_choice(choice: Any) -> bool:
    delta = choice.delta
    if delta is None or choice.finish_reason or not get_field(delta, "content"):
        return False
    return (
        not get_field(delta, "refusal")
        and _has_no_extra_fields(delta)
        and _has_no_extra_fields(choice)
    )


def _has_no_extra_fields(holder: Any) -> bool:
    """Return whether all fields outside the standard ones are empty."""
    known, extra = vars(holder), holder.model_extra
    if any(known.get(name) is not None for name in _SIDE_FIELDS):
        return False
    return not extra or all(
        name in _STANDARD_FIELDS or value is None for name, value in extra.items()
    )

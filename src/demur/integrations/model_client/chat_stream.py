"""The chunks of a chat completion, of which only some may leave."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from demur.enforce.ruling import Ruling
from demur.integrations.model_client.held import Piece, Portion
from demur.integrations.model_client.turn import field

__all__ = ["ChatStream", "ChunkKinds"]

# Fields that some SDKs keep in `model_extra` and that carry no refusal.
_USUAL = frozenset(
    {"audio", "content", "delta", "finish_reason", "function_call", "index", "logprobs"}
    | {"role", "tool_calls"}
)
# Fields in which providers and gateways report about an answer.
_BESIDE = ("moderation", "provider_specific_fields")


class ChunkKinds(NamedTuple):
    """An SDK's types for a choice of a chunk and for its delta."""

    choice: Any
    delta: Any


class ChatStream:
    """Chunks of a completion. Each choice is one answer with one part."""

    def __init__(
        self, kinds: ChunkKinds, message: Callable[[Ruling], dict[str, Any]], choices: int
    ) -> None:
        self._kinds = kinds
        self._message = message
        self._choices = choices
        self._latest: Any = None
        self._begun: set[Hashable] = set()
        self._refusals: dict[Hashable, str] = {}

    def is_plain(self, event: Any) -> bool:
        """Return whether a chunk only adds text, in known and unknown fields alike."""
        choices = event.choices
        return bool(choices) and _is_silent(event) and all(map(_is_plain, choices))

    def portions(self, event: Any) -> Sequence[Portion]:
        """Return the content of a chunk, choice by choice."""
        self._latest = event
        if not event.choices:
            return [Portion(event, answer=None)]
        *others, last = event.choices
        apart = [event.model_copy(update={"choices": [one], "usage": None}) for one in others]
        final = event.model_copy(update={"choices": [last]}) if others else event
        return [self._portion(chunk) for chunk in (*apart, final)]

    def without(self, event: Any) -> Any | None:
        """Return a chunk without its text."""
        left = [one for one in map(self._bare, event.choices) if one is not None]
        if not left and field(event, "usage") is None:
            return None
        return event.model_copy(update={"choices": left})

    def left(self, event: Any) -> None:
        """Do nothing: chunks open nothing that would have to be closed."""

    def more(self, part: Hashable, text: str) -> Any:
        """Return a chunk that adds text to a choice."""
        return self._chunk(part, {"content": text})

    def refusal(self, answer: Hashable, ruling: Ruling, words: str) -> Sequence[Any]:  # noqa: ARG002 - part of the form
        """Return the chunks that end a choice with a refusal."""
        said = {
            name: value
            for name, value in self._message(ruling).items()
            if name not in {"role", "content"}
        }
        return [self._chunk(answer, said), self._chunk(answer, {}, "stop")]

    def is_over(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:
        """Return whether all choices have ended."""
        return len({*refused, *ended}) >= self._choices

    def _portion(self, chunk: Any) -> Portion:
        [choice] = chunk.choices
        delta, index = choice.delta, choice.index
        refusing = field(delta, "refusal")
        if refusing:
            # Refusal text has no position in the answer; hold it back until it is checked.
            refusing = self._refusals[index] = self._refusals.get(index, "") + refusing
        return Portion(
            chunk,
            answer=index,
            part=index,
            text=field(delta, "content") or "",
            wholes=(Piece(("refusal", index), refusing),) if refusing else (),
            asks=bool(field(delta, "tool_calls") or field(delta, "function_call")),
            ends=bool(choice.finish_reason),
        )

    def _bare(self, choice: Any) -> Any | None:
        """Return a choice without its text; None if nothing else is in it."""
        others = choice.delta.model_dump(exclude_none=True, exclude={"content"})
        if choice.index in self._begun:
            others.pop("role", None)
        self._begun.add(choice.index)
        if not others and not choice.finish_reason:
            return None
        # Token log probabilities would spell the text that is held back.
        delta = self._kinds.delta.model_validate(others)
        return choice.model_copy(update={"delta": delta, "logprobs": None})

    def _chunk(self, index: Hashable, delta: Mapping[str, Any], finish: str | None = None) -> Any:
        added = self._kinds.delta.model_validate(delta)
        choice = self._kinds.choice.model_validate(
            {"index": index, "delta": added, "finish_reason": finish}
        )
        return self._latest.model_copy(update={"choices": [choice], "usage": None})


def _is_plain(choice: Any) -> bool:
    delta = choice.delta
    if delta is None or choice.finish_reason or not field(delta, "content"):
        return False
    return not field(delta, "refusal") and _is_silent(delta) and _is_silent(choice)


def _is_silent(holder: Any) -> bool:
    """Return whether all fields outside the standard ones are empty."""
    known, extra = vars(holder), holder.model_extra
    if any(known.get(name) is not None for name in _BESIDE):
        return False
    return not extra or all(name in _USUAL or value is None for name, value in extra.items())

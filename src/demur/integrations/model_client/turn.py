"""What is new in a conversation that is about to reach a model: the part to be judged now.

All that came since the model last spoke counts as one turn, so that nothing is gained by
spreading a text over several messages. What was refused before is new as long as it is there.
Messages are read as they come, as mappings or as objects of an SDK.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from demur.enforce.texts import texts_in
from demur.errors import InputError
from demur.integrations.model_client.memory import Memory

__all__ = [
    "Read",
    "Reading",
    "Returned",
    "Turn",
    "field",
    "listed",
    "newest",
    "pieces_of",
    "result_of",
    "text_of",
    "turn_of",
]

_TEXTS = ("text", "title", "context")
_NESTED = ("content", "source")
_PLAIN = {"text", "input_text", "output_text"}


class Returned(NamedTuple):
    """The output of a tool, and the call it belongs to."""

    name: str
    result: Any
    call_id: str | None = None
    arguments: Any = None

    @property
    def text(self) -> str:
        """Its text; empty if it cannot be read."""
        with suppress(InputError):
            return texts_in(self.result)
        return ""


class Turn(NamedTuple):
    """The texts and tool outputs since the model last answered.

    `text` joins `texts`, which are one for each message.
    """

    text: str
    returned: tuple[Returned, ...] = ()
    said: tuple[str, ...] = ()


class Read(NamedTuple):
    """The texts and tool outputs of one message."""

    texts: tuple[str, ...] = ()
    returned: tuple[Returned, ...] = ()


class Reading(NamedTuple):
    """How to read the messages of one API.

    `is_answer`: the model wrote the message. `is_operator`: the operator did; such messages
    are checked only with the whole history.
    """

    is_answer: Callable[[Any], bool]
    is_ours: Callable[[Any], bool]
    read: Callable[[Any], Read]


def turn_of(messages: Sequence[Any], reading: Reading, refused: Memory, *, whole: bool) -> Turn:
    """Return the part of a conversation to check: the new messages, or all of them."""

    def was_refused(message: Any) -> bool:
        if not refused:
            return False
        texts, returned = reading.read(message)
        return any(text in refused for text in (*texts, *(one.text for one in returned)))

    chosen = messages if whole else newest(messages, reading.is_answer, was_refused)
    read = [reading.read(one) for one in chosen if whole or not reading.is_ours(one)]
    texts = [text for one in read for text in one.texts if text]
    returned = tuple(result for one in read for result in one.returned)
    return Turn("\n".join(texts), returned, tuple(texts))


def newest(
    messages: Sequence[Any],
    is_answer: Callable[[Any], bool],
    was_refused: Callable[[Any], bool] = lambda _message: False,
) -> Sequence[Any]:
    """Return earlier refused messages, then all messages since the model last answered.

    Assistant messages at the very end are the caller's prefill. They count as new, and not as
    an answer to the messages before them.
    """
    end = len(messages)
    while end and is_answer(messages[end - 1]):
        end -= 1
    start = end
    while start and not is_answer(messages[start - 1]):
        start -= 1
    return [*(one for one in messages[:start] if was_refused(one)), *messages[start:]]


def field(item: Any, name: str) -> Any:
    """Return a field of a mapping or an object; None if there is none."""
    # Most items are plain dictionaries, and this test is faster than `isinstance`.
    if type(item) is dict or isinstance(item, Mapping):
        return item.get(name)
    return getattr(item, name, None)


def listed(value: Any) -> list[Any]:
    """Return the entries of an iterable; none for a text, a mapping or None."""
    if value is None or isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return []
    return list(value)


def text_of(content: Any) -> str:
    """Return all text in a message's content, joined by line breaks."""
    return "\n".join(text for text in _texts(content) if text)


def pieces_of(content: Any) -> tuple[str, ...]:
    """Return the texts of a message's content, part by part."""
    return tuple(text for text in _texts(content) if text)


def result_of(content: Any) -> Any:
    """Return a tool output as text if it is only text, and unchanged otherwise."""
    if all(isinstance(part, str) or field(part, "type") in _PLAIN for part in listed(content)):
        return text_of(content) or content or ""
    return content


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for part in listed(content):
        yield from _in_part(part)


def _in_part(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
        return
    for name in _TEXTS:
        text = field(part, name)
        if isinstance(text, str):
            yield text
    if field(part, "type") == "text" and isinstance(field(part, "data"), str):
        # A document whose source is plain text.
        yield field(part, "data")
    for name in _NESTED:
        inner = field(part, name)
        if isinstance(inner, str | list | tuple):
            yield from _texts(inner)
        elif inner is not None:
            yield from _in_part(inner)

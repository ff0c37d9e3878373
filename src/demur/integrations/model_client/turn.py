"""What is new in a conversation that is about to reach a model: the part to be judged now.

All that came since the model last spoke counts as one turn, so that nothing is gained by
spreading a text over several messages. Messages are read as they come, as mappings or as
objects of an SDK.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Returned", "Turn", "field", "listed", "newest", "result_of", "text_of"]

_TEXTS = ("text", "title", "context")
_NESTED = ("content", "source")


class Returned(NamedTuple):
    """What a tool returned, and for which call."""

    name: str
    result: Any
    call_id: str | None = None
    arguments: Any = None


class Turn(NamedTuple):
    """What a person said and what tools returned since the model last spoke."""

    text: str
    returned: tuple[Returned, ...] = ()


def newest(
    messages: Sequence[Any], is_answer: Callable[[Any], bool], *, whole: bool = False
) -> Sequence[Any]:
    """Return the messages since the model last spoke; all of them if they are wanted `whole`."""
    if whole:
        return messages
    end = len(messages)
    # Words put into the model's mouth at the end are no answer to what stands before them.
    while end and is_answer(messages[end - 1]):
        end -= 1
    start = end
    while start and not is_answer(messages[start - 1]):
        start -= 1
    return messages[start:end]


def field(item: Any, name: str) -> Any:
    """Return a field of a mapping or an object; None if there is none."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def listed(value: Any) -> list[Any]:
    """Return the entries of a list or another iterable; a text or nothing has none."""
    if value is None or isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return []
    return list(value)


def text_of(content: Any) -> str:
    """Return all text in a message's content: a text, or parts of which some hold text."""
    return "\n".join(text for text in _texts(content) if text)


def result_of(content: Any) -> Any:
    """Return what a tool returned: its text, or all of it where there is no text."""
    return text_of(content) or content or ""


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

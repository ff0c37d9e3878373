"""The new part of a conversation: all messages since the model last answered.

These messages count as one turn, so that splitting a text over several messages hides nothing.
A text that was refused before stays new for as long as it is in the conversation. Messages are
read as mappings or as objects of an SDK.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from demur.emit.hosts import from_openai
from demur.enforce.describe import extract_texts
from demur.errors import InputError

_MAX_REFUSED_TEXTS = 4_096


class RefusedTexts:
    """Refused texts, by digest; beyond `max_entries` the oldest are dropped."""

    def __init__(self, max_entries: int = _MAX_REFUSED_TEXTS) -> None:
        self._max_entries = max_entries
        self._digests: dict[bytes, None] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and _digest_text(text) in self._digests

    def add(self, texts: Iterable[str]) -> None:
        """Add texts; skip empty ones."""
        with self._lock:
            for digest in (_digest_text(text) for text in texts if text.strip()):
                self._digests.pop(digest, None)
                self._digests[digest] = None
            while len(self._digests) > self._max_entries:
                del self._digests[next(iter(self._digests))]


# A client may be guarded anew for each request, so its copies share the refused texts.
_REFUSED_BY_ENFORCER: WeakKeyDictionary[Any, RefusedTexts] = WeakKeyDictionary()


def refused_texts_for(enforcer: Any) -> RefusedTexts:
    """Return the refused texts that all clients of an enforcer or a gate share."""
    return _REFUSED_BY_ENFORCER.setdefault(enforcer, RefusedTexts())


def is_refusal(text: object) -> bool:
    """Return whether a text ends in a refusal line, so that demur wrote it and not a model."""
    return from_openai({"refusal": text}) is not None


def _digest_text(text: str) -> bytes:
    return blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=16).digest()


_TEXT_FIELDS = ("text", "title", "context")
_NESTED_FIELDS = ("content", "source")
_TEXT_TYPES = {"text", "input_text", "output_text"}


class ToolOutput(NamedTuple):
    """The output of a tool, and the call it belongs to."""

    name: str
    result: Any
    call_id: str | None = None
    arguments: Any = None

    @property
    def text(self) -> str:
        """Its text; empty if it cannot be read."""
        with suppress(InputError):
            return extract_texts(self.result)
        return ""


class NewTurn(NamedTuple):
    """The texts and tool outputs since the model last answered.

    `text` joins `texts`, which are one for each message.
    """

    text: str
    tool_outputs: tuple[ToolOutput, ...] = ()
    texts: tuple[str, ...] = ()


class MessageContent(NamedTuple):
    """The texts and tool outputs of one message."""

    texts: tuple[str, ...] = ()
    tool_outputs: tuple[ToolOutput, ...] = ()


class MessageReader(NamedTuple):
    """How to read the messages of one API.

    `is_answer`: the model wrote the message. `is_operator`: the operator did; such messages
    are checked only with the whole history.
    """

    is_answer: Callable[[Any], bool]
    is_operator: Callable[[Any], bool]
    read: Callable[[Any], MessageContent]


def read_new_turn(
    messages: Sequence[Any],
    reader: MessageReader,
    refused_texts: RefusedTexts,
    *,
    recheck_history: bool,
) -> NewTurn:
    """Return the part of a conversation to check: the new messages, or all of them.

    A message that was refused before is new as well.
    """
    chosen = list(messages)
    if not recheck_history:
        start = find_new_start(messages, reader.is_answer)
        earlier = messages[:start] if refused_texts else ()
        chosen = [one for one in earlier if _was_refused(reader.read(one), refused_texts)]
        chosen = [one for one in (*chosen, *messages[start:]) if not reader.is_operator(one)]
    contents = [reader.read(one) for one in chosen]
    texts = tuple(text for one in contents for text in one.texts if text)
    outputs = tuple(output for one in contents for output in one.tool_outputs)
    return NewTurn("\n".join(texts), outputs, texts)


def find_new_start(messages: Sequence[Any], is_answer: Callable[[Any], bool]) -> int:
    """Return the position after the model's last answer.

    Assistant messages at the very end are the caller's prefill. They count as new, and not as
    an answer to the messages before them.
    """
    start = len(messages)
    while start and is_answer(messages[start - 1]):
        start -= 1
    while start and not is_answer(messages[start - 1]):
        start -= 1
    return start


def _was_refused(content: MessageContent, refused_texts: RefusedTexts) -> bool:
    outputs = (output.text for output in content.tool_outputs)
    return any(text in refused_texts for text in (*content.texts, *outputs))


def get_field(item: Any, name: str) -> Any:
    """Return a field of a mapping or an object; None if there is none."""
    # Most items are plain dictionaries, and this test is faster than `isinstance`.
    if type(item) is dict or isinstance(item, Mapping):
        return item.get(name)
    return getattr(item, name, None)


def list_entries(value: Any) -> list[Any]:
    """Return the entries of an iterable; none for a text, a mapping or None."""
    if value is None or isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return []
    return list(value)


def join_texts(content: Any) -> str:
    """Return all text in a message's content, joined by line breaks."""
    return "\n".join(list_texts(content))


def list_texts(content: Any) -> tuple[str, ...]:
    """Return the texts of a message's content, part by part."""
    return tuple(text for text in _iter_texts(content) if text)


def simplify_tool_output(content: Any) -> Any:
    """Return a tool output as text if it is only text, and unchanged otherwise."""
    parts = list_entries(content)
    if all(isinstance(part, str) or get_field(part, "type") in _TEXT_TYPES for part in parts):
        return join_texts(content) or content or ""
    return content


def _iter_texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for part in list_entries(content):
        yield from _iter_part_texts(part)


def _iter_part_texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
        return
    for name in _TEXT_FIELDS:
        text = get_field(part, name)
        if isinstance(text, str):
            yield text
    if get_field(part, "type") == "text" and isinstance(get_field(part, "data"), str):
        # A document whose source is plain text.
        yield get_field(part, "data")
    for name in _NESTED_FIELDS:
        inner = get_field(part, name)
        if isinstance(inner, str | list | tuple):
            yield from _iter_texts(inner)
        elif inner is not None:
            yield from _iter_part_texts(inner)

"""What a function gave in a model's place: in a client's own type, so that it can be judged."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from demur.integrations.model_client.form import Posted
from demur.integrations.model_client.raw import UnjudgedError
from demur.integrations.model_client.turn import field

__all__ = ["Kind", "entries", "is_iterator", "owned", "unjudged"]

_HELP = "return the client's own response type or stream, awaited if the client is async"


class Kind(NamedTuple):
    """The types of a client's answers and streams.

    `content_field` is the field with an answer's content; `defaults` fill missing fields.
    """

    answer: Any
    stream: Any
    says: str
    head: Mapping[str, Any] = {}


def owned(answer: Any, posted: Posted, kind: Kind) -> Any:
    """Return an answer in the client's own type; a stream must have that type already.

    Raises:
        UncheckedAnswerError: It cannot be converted.
    """
    if posted.gave_stream(answer):
        if posted.is_stream is None and not isinstance(answer, kind.stream):
            raise unjudged(answer)
        return answer
    asked = posted.cast_to
    own = asked if isinstance(asked, type) and hasattr(asked, "model_validate") else kind.answer
    if isinstance(answer, (own, kind.answer)):
        return answer
    given = answer.model_dump() if hasattr(answer, "model_dump") else answer
    if not isinstance(given, Mapping) or not isinstance(given.get(kind.says), list | tuple):
        raise unjudged(answer)
    try:
        return own.model_validate({**kind.head, **given})
    except Exception as error:
        raise unjudged(answer) from error


def entries(response: Any, name: str) -> Sequence[Any]:
    """Return the entries of a response's field; empty if the client's own type has None there.

    Raises:
        UncheckedAnswerError: The response has no such field.
    """
    found = field(response, name)
    if isinstance(found, list | tuple):
        return found
    if found is None and hasattr(response, name):
        return ()
    raise unjudged(response)


def is_iterator(answer: Any) -> bool:
    """Return whether an answer is an iterator, sync or async."""
    kind = type(answer)
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def unjudged(answer: Any) -> UnjudgedError:
    """Return the error for an answer that demur cannot check; close it if it is a coroutine."""
    if inspect.iscoroutine(answer):
        answer.close()
    return UnjudgedError(
        f"demur cannot check an answer of type `{type(answer).__name__}`",
        help=_HELP,
    )

"""What a function gave in a model's place: in a client's own type, so that it can be judged."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from demur.integrations.model_client.form import Posted
from demur.integrations.model_client.raw import UnjudgedError
from demur.integrations.model_client.turn import field

__all__ = ["Kind", "entries", "is_iterator", "owned", "unjudged"]

_HELP = "give what the client itself gives: its own type, or a stream, and awaited where it is"


class Kind(NamedTuple):
    """The type of a client's answers, and that of its streams.

    `says` is the field in which an answer says something, and `head` what may be left out.
    """

    answer: Any
    stream: Any
    says: str
    head: Mapping[str, Any] = {}


def owned(answer: Any, posted: Posted, kind: Kind) -> Any:
    """Return an answer in the type in which the client has it; a stream has to be one already.

    Raises:
        UnjudgedError: It is nothing of the kind.
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
    """Return what a response says under a name; nothing where a client's own type has nothing.

    Raises:
        UnjudgedError: It is no such response.
    """
    found = field(response, name)
    if isinstance(found, list | tuple):
        return found
    if found is None and hasattr(response, name):
        return ()
    raise unjudged(response)


def is_iterator(answer: Any) -> bool:
    """Return whether an answer comes one by one, waited for or awaited."""
    kind = type(answer)
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def unjudged(answer: Any) -> UnjudgedError:
    """Return the error that says what would leave; what was never awaited is given up."""
    if inspect.iscoroutine(answer):
        answer.close()
    return UnjudgedError(
        f"an answer of type `{type(answer).__name__}` would leave without being judged",
        help=_HELP,
    )

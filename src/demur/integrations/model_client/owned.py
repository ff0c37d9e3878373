"""What a function gave in a model's place: in a client's own type, so that it can be judged."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from demur.integrations.model_client.form import OutgoingRequest
from demur.integrations.model_client.raw import UncheckedAnswerError
from demur.integrations.model_client.turn import get_field

__all__ = ["AnswerType", "read_entries", "is_iterator", "coerce_answer", "unchecked_error"]

_HELP = "return the client's own response type or stream, awaited if the client is async"


class AnswerType(NamedTuple):
    """The types of a client's answers and streams.

    `content_field` is the field with an answer's content; `defaults` fill missing fields.
    """

    answer: Any
    stream: Any
    content_field: str
    defaults: Mapping[str, Any] = {}


def coerce_answer(answer: Any, request: OutgoingRequest, answer_type: AnswerType) -> Any:
    """Return an answer in the client's own type; a stream must have that type already.

    Raises:
        UncheckedAnswerError: It cannot be converted.
    """
    if request.is_streamed(answer):
        if request.is_stream is None and not isinstance(answer, answer_type.stream):
            raise unchecked_error(answer)
        return answer
    asked = request.cast_to
    own = (
        asked
        if isinstance(asked, type) and hasattr(asked, "model_validate")
        else answer_type.answer
    )
    if isinstance(answer, (own, answer_type.answer)):
        return answer
    given = answer.model_dump() if hasattr(answer, "model_dump") else answer
    if not isinstance(given, Mapping) or not isinstance(
        given.get(answer_type.content_field), list | tuple
    ):
        raise unchecked_error(answer)
    try:
        return own.model_validate({**answer_type.defaults, **given})
    except Exception as error:
        raise unchecked_error(answer) from error


def read_entries(response: Any, name: str) -> Sequence[Any]:
    """Return the entries of a response's field; empty if the client's own type has None there.

    Raises:
        UncheckedAnswerError: The response has no such field.
    """
    found = get_field(response, name)
    if isinstance(found, list | tuple):
        return found
    if found is None and hasattr(response, name):
        return ()
    raise unchecked_error(response)


def is_iterator(answer: Any) -> bool:
    """Return whether an answer is an iterator, sync or async."""
    kind = type(answer)
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def unchecked_error(answer: Any) -> UncheckedAnswerError:
    """Return the error for an answer that demur cannot check; close it if it is a coroutine."""
    if inspect.iscoroutine(answer):
        answer.close()
    return UncheckedAnswerError(
        f"demur cannot check an answer of type `{type(answer).__name__}`",
        help=_HELP,
    )

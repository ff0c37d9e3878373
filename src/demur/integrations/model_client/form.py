"""How one interface of a provider asks and answers: what the form of each has to say."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from demur.enforce.ruling import CheckResult
from demur.integrations.model_client.trail import CallTrace
from demur.integrations.model_client.turn import NewTurn

__all__ = ["ApiFormat", "OpenStream", "OutgoingRequest", "AnswerChoice"]


class OutgoingRequest(NamedTuple):
    """A request on its way to a provider.

    `parse` converts a response to the type that the caller asked for. `raw` means that the
    caller wants the HTTP response, `wants_stream` that it wants events. `is_stream` tells from
    an answer whether it is a stream, for hosts that may ignore the request's wish.
    `find_served_model` reads from an answer which model gave it.
    """

    send: Callable[[dict[str, Any]], Any]
    body: dict[str, Any]
    cast_to: Any = None
    parse: Callable[[Any], Any] | None = None
    wants_stream: bool = False
    raw: bool | str = False
    is_stream: Callable[[Any], bool] | None = None
    find_served_model: Callable[[Any], str | None] | None = None

    @property
    def model(self) -> str:
        """The requested model."""
        return str(self.body.get("model", ""))

    def is_streamed(self, answer: Any) -> bool:
        """Return whether an answer is a stream."""
        return self.wants_stream if self.is_stream is None else self.is_stream(answer)


class AnswerChoice(NamedTuple):
    """One choice of a response: its texts, and the `source` to read a typed refusal from.

    With `has_calls`, the choice asks for tool calls, so its text is no refusal.
    `refusal_text` is the text of a typed refusal, which callers show as well.
    """

    source: Any
    texts: tuple[str, ...] = ()
    has_calls: bool = False
    refusal_text: str = ""

    @property
    def text(self) -> str:
        """The answer as clients join it."""
        return "".join(self.texts)

    @property
    def readings(self) -> tuple[str, ...]:
        """The joined text, and also its parts on separate lines if there are several."""
        parts = [*filter(None, (*self.texts, self.refusal_text))]
        return tuple(dict.fromkeys(filter(None, ("".join(parts), "\n".join(parts)))))


class OpenStream(NamedTuple):
    """An open stream, to be filtered while it is read."""

    stream: Any
    turn: NewTurn
    trace: CallTrace


class ApiFormat(Protocol):
    """How one API of a provider represents requests, responses and refusals."""

    def read_turn(self, body: Mapping[str, Any], *, include_history: bool) -> NewTurn:
        """Return the new part of a request."""

    def coerce_answer(self, answer: Any, request: OutgoingRequest) -> Any:
        """Return the value of a fallback function in the client's own type.

        Raises:
            UncheckedAnswerError: It is no answer of this API.
        """

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the choices of a response.

        Raises:
            UncheckedAnswerError: The response has no readable choices.
        """

    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a refusing response for a request that was not sent."""

    def replace_choices(self, response: Any, refused: Mapping[int, CheckResult]) -> Any:
        """Return a response with these choices replaced by refusals."""

    def build_refusal_stream(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a refusing stream for a request that was not sent."""

    def filter_stream(self, opened: OpenStream, request: OutgoingRequest) -> Any:
        """Return a stream of the cleared events."""

    def to_parsed_type(self, response: Any, request: OutgoingRequest) -> Any:
        """Return a refusing response in the type that the caller parses to."""

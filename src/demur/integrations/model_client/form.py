"""How one interface of a provider asks and answers: what the form of each has to say."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from demur.enforce.ruling import Ruling
from demur.integrations.model_client.trail import Trail
from demur.integrations.model_client.turn import Turn

__all__ = ["Form", "Opened", "Posted", "Said"]


class Posted(NamedTuple):
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
    streams: bool = False
    raw: bool | str = False
    is_stream: Callable[[Any], bool] | None = None
    served: Callable[[Any], str | None] | None = None

    @property
    def model(self) -> str:
        """The requested model."""
        return str(self.body.get("model", ""))

    def gave_stream(self, answer: Any) -> bool:
        """Return whether an answer is a stream."""
        return self.streams if self.is_stream is None else self.is_stream(answer)


class Said(NamedTuple):
    """One choice of a response: its texts, and the `source` to read a typed refusal from.

    With `has_calls`, the choice asks for tool calls, so its text is no refusal.
    `refusal_text` is the text of a typed refusal, which callers show as well.
    """

    view: Any
    texts: tuple[str, ...] = ()
    asks: bool = False
    refusing: str = ""

    @property
    def text(self) -> str:
        """The answer as clients join it."""
        return "".join(self.texts)

    @property
    def readings(self) -> tuple[str, ...]:
        """The joined text, and also its parts on separate lines if there are several."""
        parts = [*filter(None, (*self.texts, self.refusing))]
        return tuple(dict.fromkeys(filter(None, ("".join(parts), "\n".join(parts)))))


class Opened(NamedTuple):
    """An open stream, to be filtered while it is read."""

    stream: Any
    turn: Turn
    trail: Trail


class Form(Protocol):
    """How one API of a provider represents requests, responses and refusals."""

    def turn(self, body: Mapping[str, Any], *, whole: bool) -> Turn:
        """Return the new part of a request."""

    def own(self, answer: Any, posted: Posted) -> Any:
        """Return the value of a fallback function in the client's own type.

        Raises:
            UncheckedAnswerError: It is no answer of this API.
        """

    def said(self, response: Any) -> Sequence[Said]:
        """Return the choices of a response.

        Raises:
            UncheckedAnswerError: The response has no readable choices.
        """

    def refusing(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a refusing response for a request that was not sent."""

    def replaced(self, response: Any, refused: Mapping[int, Ruling]) -> Any:
        """Return a response with these choices replaced by refusals."""

    def refusing_stream(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a refusing stream for a request that was not sent."""

    def guarded_stream(self, opened: Opened, posted: Posted) -> Any:
        """Return a stream of the cleared events."""

    def unparsed(self, response: Any, posted: Posted) -> Any:
        """Return a refusing response in the type that the caller parses to."""

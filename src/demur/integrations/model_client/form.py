"""How one interface of a provider asks and answers: what the form of each has to say."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from demur.enforce.ruling import Ruling
from demur.integrations.model_client.trail import Trail
from demur.integrations.model_client.turn import Turn

__all__ = ["Form", "Opened", "Posted", "Said"]


class Posted(NamedTuple):
    """A request on its way to a provider.

    `parse` makes of a response what the caller asked for; `raw` says that the caller wants
    the HTTP response, `streams` that the answer comes in events. `is_stream` tells it from the
    answer, where a request may be served otherwise than it asks, and `served` reads from it
    which model it is from, where it says so.
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
        """The model that is asked."""
        return str(self.body.get("model", ""))

    def gave_stream(self, answer: Any) -> bool:
        """Return whether an answer comes in events."""
        return self.streams if self.is_stream is None else self.is_stream(answer)


class Said(NamedTuple):
    """One choice of a response: what to read a typed refusal from, and its texts.

    `asks`: it asks for calls, so whatever it says, it goes on. `refusing` are the words of a
    typed refusal, which are shown as well.
    """

    view: Any
    texts: tuple[str, ...] = ()
    asks: bool = False
    refusing: str = ""

    @property
    def text(self) -> str:
        """All that it answers, as whoever shows it puts it together."""
        return "".join(self.texts)

    @property
    def readings(self) -> tuple[str, ...]:
        """All its words, and also with their parts kept apart where there are several."""
        parts = [*filter(None, (*self.texts, self.refusing))]
        return tuple(dict.fromkeys(filter(None, ("".join(parts), "\n".join(parts)))))


class Opened(NamedTuple):
    """A stream that was opened, to be guarded while it is read."""

    stream: Any
    turn: Turn
    trail: Trail


class Form(Protocol):
    """How one interface of a provider asks and answers."""

    def turn(self, body: Mapping[str, Any], *, whole: bool) -> Turn:
        """Return what is new in a request."""

    def own(self, answer: Any, posted: Posted) -> Any:
        """Return what a function gave in a model's place, in the client's own type.

        Raises:
            UnjudgedError: It is no answer of this interface.
        """

    def said(self, response: Any) -> Sequence[Said]:
        """Return the choices of a response.

        Raises:
            UnjudgedError: It has none that could be read.
        """

    def refusing(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a response that refuses, where no model was asked."""

    def replaced(self, response: Any, refused: Mapping[int, Ruling]) -> Any:
        """Return a response whose choices of these numbers refuse."""

    def refusing_stream(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a stream that refuses, where no model was asked."""

    def guarded_stream(self, opened: Opened, posted: Posted) -> Any:
        """Return a stream of what may leave."""

    def unparsed(self, response: Any, posted: Posted) -> Any:
        """Return a response that refuses in the type that the caller has it parsed to."""

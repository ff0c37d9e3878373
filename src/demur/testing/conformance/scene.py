"""A scene: what happens in an agent, and what must come of it, whatever framework it runs in.

A scene is data. A stage plays it: it builds an agent with its framework's own fake model,
which does what `turns` say, and tools that call `Tools.run`.
"""

from collections.abc import Mapping
from enum import StrEnum
from threading import Lock
from typing import Any, NamedTuple, Protocol

from demur.codes.vocabulary import Advice, RefusalClass
from demur.enforce.enforcer import Enforcer
from demur.model.refusal import Refusal

__all__ = [
    "Ask",
    "Expected",
    "Filtered",
    "Point",
    "Say",
    "Scene",
    "Seen",
    "Setting",
    "Stage",
    "Tools",
    "Turn",
]


class Point(StrEnum):
    """Where a scene's refusal is seen: what a stage's framework must let one look at."""

    PROMPT = "prompt"
    ANSWER = "answer"
    STREAM = "stream"
    MODEL = "model"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"


class Say(NamedTuple):
    """The model answers with a text; in a scene of streaming, in these pieces."""

    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(self.pieces)


class Ask(NamedTuple):
    """The model asks for tools, all of them in one turn: names and arguments."""

    calls: tuple[tuple[str, Mapping[str, Any]], ...]


class Filtered(NamedTuple):
    """The provider stops the answer, in the form in which it reports that to this framework."""


Turn = Say | Ask | Filtered


class Expected(NamedTuple):
    """What a refusal must say."""

    code: str
    refusal_class: RefusalClass
    advice: Advice


class Setting(NamedTuple):
    """What is special about the enforcer of a scene."""

    advisory: bool = False
    accepted: tuple[str, ...] = ()
    prompts_an_hour: int | None = None
    broken: str | None = None
    slow: str | None = None
    store_down: bool = False


class Scene(NamedTuple):
    """One scene.

    `expected` is None where nothing is refused; `recorded` is a code that is on record all the
    same. `runs` names the tools that run, in order; `hidden` must not be shown to a person, nor
    be heard by the model again. `plays` says how often the scene is played with the same
    enforcer: the last time is what it is about, and nothing is refused before.
    """

    name: str
    point: Point
    prompt: str
    turns: tuple[Turn, ...]
    expected: Expected | None = None
    runs: tuple[str, ...] = ()
    returns: Mapping[str, str] = {}
    hidden: str = ""
    shown: str = ""
    recorded: str = ""
    plays: int = 1
    setting: Setting = Setting()

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that the model asks for, each once."""
        asked = (name for turn in self.turns if isinstance(turn, Ask) for name, _ in turn.calls)
        return tuple(dict.fromkeys(asked))


class Tools:
    """The tools of a scene. A stage offers each of `names` to its framework and runs it here."""

    def __init__(self, scene: Scene) -> None:
        self.names = scene.tools
        self._returns = scene.returns
        self._lock = Lock()
        self.ran: list[str] = []

    def run(self, name: str, _arguments: Mapping[str, Any] | None = None) -> str:
        """Return what the tool returns; that it ran is noted."""
        with self._lock:
            self.ran.append(name)
        return self._returns.get(name, f"{name} is done")


class Seen(NamedTuple):
    """What a stage saw of a scene.

    `refusal` is read back from the framework's own place for one. `text` is all that a person
    was shown, `heard` all that the model was sent after its first turn, `asked` how often it
    was asked at all (None where no model takes part). `orphans` counts tool calls in the
    history that nothing answers.
    """

    refusal: Refusal | None = None
    text: str = ""
    heard: str = ""
    orphans: int = 0
    asked: int | None = None


class Stage(Protocol):
    """A framework that scenes are played in.

    `points` are those it lets one look at. `ends_runs`: it is the framework that goes on from
    turn to turn, so a hard block must end that; a server that answers single calls does not.
    """

    @property
    def name(self) -> str:
        """How the table calls it."""

    @property
    def points(self) -> frozenset[Point]:
        """Where its framework lets one look."""

    @property
    def ends_runs(self) -> bool:
        """Whether a hard block must end the run."""

    def play(self, scene: Scene, enforcer: Enforcer, tools: Tools) -> Seen:
        """Return what was seen."""

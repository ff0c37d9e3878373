"""Conformance scenarios: what happens in an agent, and what must come of it in any framework.

A scenario is data. A framework driver runs it: it builds an agent with its framework's own fake
model, which does what `turns` say, and tools that call `ScenarioTools.run`.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Advice, RefusalClass
from demur.enforce.changes import OnFinding
from demur.enforce.enforcer import Enforcer
from demur.model.refusal import Refusal


class CheckPoint(StrEnum):
    """The point at which a scenario is refused, and which the framework must let demur check."""

    PROMPT = "prompt"
    ANSWER = "answer"
    STREAM = "stream"
    MODEL = "model"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"


class AnswerTurn(NamedTuple):
    """The model answers with a text; in a streaming scenario, in these pieces."""

    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(self.pieces)


class ToolTurn(NamedTuple):
    """The model calls tools, all of them in one turn: names and arguments."""

    calls: tuple[tuple[str, Mapping[str, Any]], ...]


class FilteredTurn(NamedTuple):
    """The provider filters the answer, and reports that in its own form."""


ModelTurn = AnswerTurn | ToolTurn | FilteredTurn


class ExpectedRefusal(NamedTuple):
    """The facts that a refusal must have."""

    code: str
    refusal_class: RefusalClass
    advice: Advice


class ScenarioSetting(NamedTuple):
    """The special settings of a scenario's enforcer; `shadow` and `on_finding` as in `Enforcer`."""

    advisory: bool = False
    accepted: tuple[str, ...] = ()
    prompts_an_hour: int | None = None
    broken: str | None = None
    slow: str | None = None
    store_down: bool = False
    shadow: bool = False
    on_finding: OnFinding | None = None


class Scenario(NamedTuple):
    """One scenario.

    `expected` is None if nothing is refused; `recorded` is a code that is recorded nevertheless.
    `runs` names the tools that run, in order. `hidden` must be shown neither to a person nor to
    the model again, and `withheld` must reach no tool. A record must say that something was allowed
    with `constraint`. `rounds` is the number of runs with the same enforcer: only the last one may
    be refused, and it is the one that is checked.
    """

    name: str
    point: CheckPoint
    prompt: str
    turns: tuple[ModelTurn, ...]
    expected: ExpectedRefusal | None = None
    runs: tuple[str, ...] = ()
    returns: Mapping[str, str] = {}
    hidden: str = ""
    withheld: str = ""
    shown: str = ""
    recorded: str = ""
    constraint: str = ""
    rounds: int = 1
    setting: ScenarioSetting = ScenarioSetting()

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that the model calls, each once."""
        asked = (
            name for turn in self.turns if isinstance(turn, ToolTurn) for name, _ in turn.calls
        )
        return tuple(dict.fromkeys(asked))


class ScenarioTools:
    """The tools of a scenario. A driver offers `names` to its framework and runs them here."""

    def __init__(self, scenario: Scenario) -> None:
        self.names = scenario.tools
        self._returns = scenario.returns
        self._lock = Lock()
        self.calls: list[str] = []
        self.arguments: list[Any] = []

    def run(self, name: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Record the call, and return the result of the tool."""
        with self._lock:
            self.calls.append(name)
            self.arguments.append(arguments)
        return self._returns.get(name, f"{name} is done")


class ScenarioResult(NamedTuple):
    """The result of a scenario on a driver.

    `refusal` is read back from where the framework reports it. `text` is everything shown to a
    person, `model_input` everything sent to the model after its first turn, `model_calls` the
    number of model calls (None without a model). `orphans` counts unanswered tool calls in the
    history.
    """

    refusal: Refusal | None = None
    text: str = ""
    model_input: str = ""
    orphans: int = 0
    model_calls: int | None = None


class FrameworkDriver(Protocol):
    """Runs scenarios in a framework.

    `points` are the check points of the framework. `ends_runs`: the framework runs the turns
    itself, so a hard block must end the run; a server that answers single calls does not. A driver
    may name scenarios in `skipped` that the framework offers no way to fulfil.
    """

    @property
    def name(self) -> str:
        """The name in the table."""

    @property
    def points(self) -> frozenset[CheckPoint]:
        """The check points of the framework."""

    @property
    def ends_runs(self) -> bool:
        """Whether a hard block must end the run."""

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""


DENIED_TOOL = "format_disk"


def _read_scenario(row: dict[str, Any]) -> Scenario:
    """Return the scenario of a row of `scenarios.json`."""
    code, refusal_class, advice = row.pop("expected", (None, None, None))
    if code is not None:
        expected = ExpectedRefusal(ReasonCode(code), RefusalClass(refusal_class), Advice(advice))
        row["expected"] = expected
    if "recorded" in row:
        row["recorded"] = ReasonCode(row["recorded"])
    setting = row.pop("setting", {})
    if "accepted" in setting:
        setting["accepted"] = tuple(setting["accepted"])
    return Scenario(
        point=CheckPoint(row.pop("point")),
        turns=tuple(map(_read_turn, row.pop("turns"))),
        runs=tuple(row.pop("runs", ())),
        setting=ScenarioSetting(**setting),
        **row,
    )


def _read_turn(turn: dict[str, Any]) -> ModelTurn:
    if "pieces" in turn:
        return AnswerTurn(tuple(turn["pieces"]))
    if "calls" in turn:
        return ToolTurn(tuple((name, arguments) for name, arguments in turn["calls"]))
    return FilteredTurn()


_ROWS = json.loads(Path(__file__).with_name("scenarios.json").read_text(encoding="utf-8"))
SCENARIOS: tuple[Scenario, ...] = tuple(map(_read_scenario, _ROWS))

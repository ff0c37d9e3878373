"""The driver without a framework: the enforcer itself, as the reference for all adapters."""

from demur.emit.envelope import from_envelope
from demur.enforce.enforcer import Enforcer, CallContext
from demur.enforce.ruling import CheckResult
from demur.testing.conformance.scene import (
    ToolTurn,
    FilteredTurn,
    CheckPoint,
    AnswerTurn,
    Scenario,
    ScenarioResult,
    ScenarioTools,
)

__all__ = ["BareDriver"]

_FILTERED_RESPONSE = {
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "finish_reason": "content_filter",
            "message": {"role": "assistant", "content": ""},
        }
    ],
}
_CONTEXT = CallContext("bare", run="run-1")


class BareDriver:
    """Runs scenarios by calling the enforcer at each check point, like a loop around a model."""

    name = "bare"
    points = frozenset(CheckPoint)
    ends_runs = True

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        return _BareRun(scenario, enforcer, tools).run()


class _BareRun:
    def __init__(self, scene: Scenario, enforcer: Enforcer, tools: ScenarioTools) -> None:
        self._scene = scene
        self._enforcer = enforcer
        self._tools = tools
        self._refusal = from_envelope(None)
        self._shown: list[str] = []
        self._model_input: list[str] = []
        self._turns = 0

    def run(self) -> ScenarioResult:
        """Run the scenario, and return its result."""
        ruling = self._enforcer.check_prompt(self._scene.prompt, _CONTEXT)
        if self._note_refusal(ruling):
            self._shown.append(ruling.user_text)
        else:
            for turn in self._scene.turns:
                self._turns += 1
                if isinstance(turn, ToolTurn):
                    if self._run_tools(turn):
                        break
                else:
                    self._check_answer(turn)
        shown, heard = "".join(self._shown), "\n".join(self._model_input)
        return ScenarioResult(self._refusal, shown, heard, model_calls=self._turns)

    def _note_refusal(self, ruling: CheckResult) -> bool:
        if not ruling.allowed:
            self._refusal = from_envelope(ruling.envelope)
        return not ruling.allowed

    def _check_answer(self, turn: AnswerTurn | FilteredTurn) -> None:
        text = turn.text if isinstance(turn, AnswerTurn) else ""
        native = _FILTERED_RESPONSE if isinstance(turn, FilteredTurn) else None
        self._note_refusal(
            self._enforcer.read_refusal(native, _CONTEXT, text=text, prompt=self._scene.prompt)
        )
        stream = self._enforcer.stream_answer(_CONTEXT, prompt=self._scene.prompt)
        for piece in turn.pieces if isinstance(turn, AnswerTurn) else ():
            self._shown.append(stream.add(piece))
        self._note_refusal(stream.finish())
        self._shown.append(stream.remaining_text)

    def _run_tools(self, turn: ToolTurn) -> bool:
        """Run the allowed tools of one turn; return whether the run must end."""
        rulings = [
            self._enforcer.check_tool_call(name, given, _CONTEXT) for name, given in turn.calls
        ]
        for (name, given), ruling in zip(turn.calls, rulings, strict=True):
            if self._note_refusal(ruling):
                self._model_input.append(ruling.model_message)
            elif not any(other.is_hard for other in rulings):
                returned = self._tools.run(name, given)
                after = self._enforcer.check_tool_result(name, returned, _CONTEXT, arguments=given)
                self._model_input.append(
                    after.model_message if self._note_refusal(after) else returned
                )
        return any(ruling.is_hard for ruling in rulings)

"""The driver without a framework: the enforcer itself, as the reference for all adapters."""

from demur.emit.envelope import from_envelope
from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.testing.conformance.scene import Ask, Filtered, Point, Say, Scene, Seen, Tools

__all__ = ["BareStage"]

_FILTERED = {
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "finish_reason": "content_filter",
            "message": {"role": "assistant", "content": ""},
        }
    ],
}
_AT = Occasion("bare", run="run-1")


class BareStage:
    """Runs scenarios by calling the enforcer at each check point, like a loop around a model."""

    name = "bare"
    points = frozenset(Point)
    ends_runs = True

    def play(self, scene: Scene, enforcer: Enforcer, tools: Tools) -> Seen:
        """Run a scenario, and return its result."""
        return _Run(scene, enforcer, tools).seen()


class _Run:
    def __init__(self, scene: Scene, enforcer: Enforcer, tools: Tools) -> None:
        self._scene = scene
        self._enforcer = enforcer
        self._tools = tools
        self._refusal = from_envelope(None)
        self._shown: list[str] = []
        self._heard: list[str] = []
        self._turns = 0

    def seen(self) -> Seen:
        """Run the scenario, and return its result."""
        ruling = self._enforcer.prompt(self._scene.prompt, _AT)
        if self._refused(ruling):
            self._shown.append(ruling.words)
        else:
            for turn in self._scene.turns:
                self._turns += 1
                if isinstance(turn, Ask):
                    if self._asked(turn):
                        break
                else:
                    self._answered(turn)
        shown, heard = "".join(self._shown), "\n".join(self._heard)
        return Seen(self._refusal, shown, heard, asked=self._turns)

    def _refused(self, ruling: Ruling) -> bool:
        if not ruling.allowed:
            self._refusal = from_envelope(ruling.envelope)
        return not ruling.allowed

    def _answered(self, turn: Say | Filtered) -> None:
        text = turn.text if isinstance(turn, Say) else ""
        native = _FILTERED if isinstance(turn, Filtered) else None
        self._refused(self._enforcer.model(native, _AT, text=text, prompt=self._scene.prompt))
        stream = self._enforcer.stream(_AT, prompt=self._scene.prompt)
        for piece in turn.pieces if isinstance(turn, Say) else ():
            self._shown.append(stream.add(piece))
        self._refused(stream.end())
        self._shown.append(stream.rest)

    def _asked(self, turn: Ask) -> bool:
        """Run the allowed tools of one turn; return whether the run must end."""
        rulings = [self._enforcer.tool_call(name, given, _AT) for name, given in turn.calls]
        for (name, given), ruling in zip(turn.calls, rulings, strict=True):
            if self._refused(ruling):
                self._heard.append(ruling.message)
            elif not any(other.is_hard for other in rulings):
                returned = self._tools.run(name, given)
                after = self._enforcer.tool_result(name, returned, _AT, arguments=given)
                self._heard.append(after.message if self._refused(after) else returned)
        return any(ruling.is_hard for ruling in rulings)

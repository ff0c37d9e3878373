"""Guard an answer while it is written, for hosts that deliver it piece by piece.

`stream_config_for` says whether the answer can be released piece by piece or must be held back.
"""

from collections.abc import Callable, Mapping
from math import inf

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.enforce.changes import FindingAction, read_text_changes
from demur.enforce.context import Steps, adrive, drive
from demur.enforce.describe import begins_json
from demur.enforce.result import CheckResult, append_resources
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.gate.scoring import ScoreWindows, find_read_scorers
from demur.guards.builtin import find_builtin, read_config
from demur.guards.output_stream import OnBlock, OutputStreamFilter, StreamConfig
from demur.guards.text_rules import builtin_rules
from demur.model.finding import Action, Finding
from demur.policy.evaluation import finding_blocks
from demur.policy.policy import Mode

# Checks the whole answer; the second argument is why its stream was ended early.
AnswerCheck = Callable[[str, Finding | Exception | None], Steps[CheckResult]]


class AnswerStream:
    """Filters the pieces of one answer. Do not share it.

    Pass every piece to `feed`, show what it returns, and stop reading from the model once
    `is_stopped` is set. `finish` returns the result; then show `remaining_text`: the held-back
    text if the answer is allowed, and otherwise the words to say instead.
    """

    def __init__(
        self,
        config: StreamConfig | None,
        limit: float,
        prompt: str | None,
        check: AnswerCheck,
        windows: ScoreWindows | None = None,
        *,
        allows_all: bool = False,
    ) -> None:
        self._windows = windows
        self._allows_all = allows_all
        # With changes, the text that the filter lets through is not the model's.
        self._is_changed = config is not None and bool(config.changes)
        self._cleared: list[str] = []
        self._fed = 0
        self._filter = None if config is None else OutputStreamFilter(config, prompt)
        self._left = limit
        self._check = check
        self._pieces: list[str] = []
        self._shown = 0
        self._is_escaped: bool | None = None
        self._error: Exception | None = None
        self._remaining: str | None = None
        self._result: CheckResult | None = None
        self.is_stopped = False

    @property
    def text(self) -> str:
        """The whole text of the model, shown or not."""
        return "".join(self._pieces)

    def feed(self, piece: str) -> str:
        """Return the text that may be shown now; empty while it is held back."""
        if self.is_stopped:
            return ""
        if not isinstance(piece, str):
            self._error = InputTypeError.wrong_type("a piece", "a text", piece)
            self.is_stopped = True
            return ""
        self._pieces.append(piece)
        self._left -= len(piece)
        # The output guard accepts no longer answer, so `finish` refuses it.
        self.is_stopped = self._left < 0
        if self._allows_all and not self.is_stopped:
            self._shown += len(piece)
            return piece
        if self.is_stopped or self._filter is None or self._is_escaped_json(piece):
            return ""
        try:
            cleared = "".join(self._filter.feed(piece))
            self._fed += 1
            if self._is_changed:
                self._cleared.append(cleared)
            out = self._score_windows(cleared)
        except Exception as error:  # noqa: BLE001 - on any error, no more text is released
            self._error, self.is_stopped = error, True
            return ""
        self.is_stopped = self._filter.is_stopped or self._stopped_by_score is not None
        self._shown += len(out)
        return out

    @property
    def _stopped_by_score(self) -> Finding | None:
        return None if self._windows is None else self._windows.blocked

    def _score_windows(self, cleared: str) -> str:
        """Return the text that models have scored by now; without models, all of it."""
        if self._windows is None:
            return cleared
        self._windows.add(cleared)
        return self._windows.release()

    def finish(self) -> CheckResult:
        """Return the result on the whole answer, which ends here."""
        return drive(self.finish_steps())

    async def afinish(self) -> CheckResult:
        """Return the result, like `finish`, without blocking the event loop."""
        return await adrive(self.finish_steps())

    def finish_steps(self) -> Steps[CheckResult]:
        """Yield the steps to the result on the whole answer."""
        if self._result is None:
            blocked = None if self._filter is None else self._filter.result.blocked
            blocked = blocked or self._stopped_by_score
            if self._windows is not None:
                # The check of the whole answer must not wait for parts of it.
                self._windows.cancel()
            result = yield from self._check(self.text, self._error or blocked)
            # INVARIANT: an allowed answer is shown completely.
            if result.allowed:
                whole = self._final_text(result)
                self._remaining = append_resources(whole[self._shown :], result.resources)
            else:
                self._remaining = "\n\n" * bool(self._shown) + result.user_text
            self._result, self.is_stopped = result, True
        return self._result

    def _final_text(self, result: CheckResult) -> str:
        """Return the whole text of an allowed answer as it is shown."""
        whole = str(result.apply_changes(self.text))
        if not self._is_changed or self._filter is None or not self._shown:
            return whole
        cleared = "".join(self._cleared)
        if self._is_escaped and whole.startswith(cleared[: self._shown]):
            return whole
        rest = "".join(self._pieces[self._fed :]) if self._is_escaped else ""
        return cleared + "".join((*self._filter.feed(rest), *self._filter.finish()))

    @property
    def remaining_text(self) -> str:
        """The text that is still to be shown at the end.

        Raises:
            InputError: The answer is not finished.
        """
        if self._remaining is None:
            raise InputError("the answer is not finished", help="call `finish` first")
        return self._remaining

    def _is_escaped_json(self, piece: str) -> bool:
        """Return whether the answer is JSON with escapes: then it is held until its end."""
        if self._is_escaped is None and "\\" in piece:
            self._is_escaped = begins_json(self.text)
        return bool(self._is_escaped)


def stream_config_for(
    pipeline: GuardPipeline,
    gate: Gate | None,
    registry: Registry,
    actions: Mapping[str, FindingAction] | None = None,
) -> StreamConfig | None:
    """Return how to guard an answer while it is written, or None if it must be held.

    `actions` are those for findings in answers. A model that may answer again has said nothing
    before, so its answer is held.
    """
    chosen = actions or {}
    if FindingAction.REASK in chosen.values():
        return None
    if gate is not None:
        reads_findings = any(rule.reads_findings for rule in gate.policy.rules)
        reads_scores = Surface.OUTPUT in find_read_scorers(gate.policy, pipeline.scorers)
        # Such a gate may refuse other answers than findings alone would.
        if gate.mode is not Mode.ENFORCE or gate.policy.shadows or reads_findings or reads_scores:
            return None
    steps = _output_steps(pipeline)
    if len(steps) != 1 or not _is_builtin(step := steps[0]):
        return None
    if step.shadow or pipeline.shadow_codes or step.timeout_s is not None:
        return None
    config = read_config(Surface.OUTPUT, step.config)
    rules = builtin_rules(Surface.OUTPUT) if config.rules is None else config.rules
    warnings = [rule for rule in rules.rules if rule.action is Action.WARN]
    if any(finding_blocks(rule.code, rule.action, registry) for rule in warnings):
        return None
    return StreamConfig(output=config, on_block=OnBlock.END, changes=read_text_changes(chosen))


def max_answer_length(pipeline: GuardPipeline, gate: Gate | None) -> float:
    """Return the length above which a guard refuses an answer; infinite if none does."""
    if gate is not None and gate.mode is not Mode.ENFORCE:
        return inf
    lengths = (
        float(read_config(Surface.OUTPUT, step.config).longest)
        for step in _output_steps(pipeline)
        if _is_builtin(step) and step.on_failure == "closed" and not step.shadow
    )
    return min(lengths, default=inf)


def _output_steps(pipeline: GuardPipeline) -> list[GuardStep]:
    return [step for step in pipeline.steps if step.guard.SURFACE == Surface.OUTPUT]


def _is_builtin(step: GuardStep) -> bool:
    return getattr(step.guard, "__name__", "") == find_builtin(Surface.OUTPUT).module

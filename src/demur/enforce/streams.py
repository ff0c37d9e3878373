"""Guard an answer while it is written, for hosts that deliver it piece by piece.

`stream_config_for` says whether the answer can be released piece by piece or must be held back.
"""

from collections.abc import Awaitable, Callable
from math import inf
from typing import NamedTuple

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.enforce.checks import Steps
from demur.enforce.describe import begins_json
from demur.enforce.result import CheckResult, append_resources, finding_blocks
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.guards.builtin import find_builtin, read_config
from demur.guards.output_stream import OnBlock, OutputStreamFilter, StreamConfig
from demur.guards.text_rules import builtin_rules
from demur.model.finding import Action, Finding
from demur.policy.policy import Mode

# Checks the whole answer; the finding says why the stream was stopped early.
AnswerCheck = Callable[[str, Finding | None], Steps[CheckResult]]


class StepDrivers(NamedTuple):
    """Drives the steps of a check: synchronously, or awaited."""

    drive: Callable[[Steps[CheckResult]], CheckResult]
    adrive: Callable[[Steps[CheckResult]], Awaitable[CheckResult]]


class AnswerStream:
    """Filters the pieces of one answer. Not to be shared.

    Pass every piece to `feed`, show what it returns, and stop reading from the model once `is_stopped`
    is set. `finish` returns the result; then show `remaining_text`: the held-back text if the
    answer is allowed, and otherwise the words to say instead.
    """

    def __init__(
        self,
        config: StreamConfig | None,
        limit: float,
        prompt: str | None,
        *,
        check: AnswerCheck,
        drivers: StepDrivers,
    ) -> None:
        self._flow = None if config is None else OutputStreamFilter(config, prompt)
        self._left = limit
        self._judge = check
        self._by = drivers
        self._said: list[str] = []
        self._shown = 0
        self._escapes: bool | None = None
        self._broken: Exception | None = None
        self._rest: str | None = None
        self._ruling: CheckResult | None = None
        self.stopped = False

    @property
    def text(self) -> str:
        """The whole text of the model, shown or not."""
        return "".join(self._said)

    def add(self, piece: str) -> str:
        """Return the text that may be shown now; empty while it is held back."""
        if self.stopped:
            return ""
        if not isinstance(piece, str):
            self._broken, self.stopped = InputTypeError.wrong_type("a piece", "a text", piece), True
            return ""
        self._said.append(piece)
        self._left -= len(piece)
        if self._left < 0:
            # The output guard accepts no longer answer, so `finish` refuses.
            self.stopped = True
            return ""
        return self._release_text(piece)

    def finish(self) -> CheckResult:
        """Return the result on the whole answer, which ends here."""
        if self._ruling is not None:
            return self._ruling
        return self._set_result(self._by.drive(self._check_steps()))

    async def afinish(self) -> CheckResult:
        """Return the result, like `finish`, without blocking the event loop."""
        if self._ruling is not None:
            return self._ruling
        return self._set_result(await self._by.adrive(self._check_steps()))

    @property
    def remaining_text(self) -> str:
        """The text that is still to be shown at the end.

        Raises:
            InputError: The answer is not finished.
        """
        if self._rest is None:
            raise InputError("the answer is not finished", help="call `finish` first")
        return self._rest

    def _release_text(self, piece: str) -> str:
        if self._flow is None or self._is_escaped_json(piece):
            return ""
        try:
            out = "".join(self._flow.feed(piece))
        except Exception as error:  # noqa: BLE001 - on any error, no more text is released
            self._broken, self.stopped = error, True
            return ""
        self.stopped = self._flow.is_stopped
        self._shown += len(out)
        return out

    def _is_escaped_json(self, piece: str) -> bool:
        """Return whether the answer is JSON with escapes: then it is held until its end."""
        if self._escapes is None and "\\" in piece:
            self._escapes = begins_json(self.text)
        return bool(self._escapes)

    def _check_steps(self) -> Steps[CheckResult]:
        if self._broken is not None:
            raise self._broken
        blocked = None if self._flow is None else self._flow.result.blocked
        return (yield from self._judge(self.text, blocked))

    def _set_result(self, result: CheckResult) -> CheckResult:
        # INVARIANT: an allowed answer is shown completely.
        if not result.allowed:
            self._rest = f"\n\n{result.user_text}" if self._shown else result.user_text
        else:
            self._rest = append_resources(self.text[self._shown :], result.resources)
        self.stopped = True
        self._ruling = result
        return result


def stream_config_for(
    pipeline: GuardPipeline, gate: Gate | None, registry: Registry
) -> StreamConfig | None:
    """Return how to guard an answer while it is written, or None if it must be held."""
    if gate is not None and not _gate_follows_findings(gate):
        return None
    steps = _output_steps(pipeline)
    if len(steps) != 1:
        return None
    [step] = steps
    if step.shadow or step.timeout_s is not None or not _is_builtin(step):
        return None
    config = read_config(Surface.OUTPUT, step.config)
    rules = builtin_rules(Surface.OUTPUT) if config.rules is None else config.rules
    warnings = [rule for rule in rules.rules if rule.action is Action.WARN]
    if any(finding_blocks(rule.code, rule.action, registry) for rule in warnings):
        return None
    return StreamConfig(output=config, on_block=OnBlock.END)


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
    return [one for one in pipeline.steps if one.guard.SURFACE == Surface.OUTPUT]


def _is_builtin(step: GuardStep) -> bool:
    return getattr(step.guard, "__name__", "") == find_builtin(Surface.OUTPUT).module


def _gate_follows_findings(gate: Gate) -> bool:
    """Return whether the gate refuses exactly what findings alone would refuse."""
    policy = gate.policy
    reads = any(rule.reads_findings for rule in policy.rules)
    return gate.mode is Mode.ENFORCE and not policy.shadows and not reads

"""One guarded call of a model: what was found on the way, and what that means for the answer.

The steps are the same whether they are waited for or awaited, and whether the answer comes
whole or in pieces; this part knows what follows from them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from demur.codes.default import default_registry
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Obligation, Surface
from demur.errors import InputError, InputTypeError
from demur.gate.activation import Monitor
from demur.gate.answers import FAILED, answer_for, help_lines, with_resources
from demur.gate.gate import Gate
from demur.gate.generated import Generated
from demur.gate.pipeline import Pipeline
from demur.gate.rate_guard import RateAsk
from demur.guards.input.guard import InputText
from demur.model.finding import Action, Finding
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.policy.evaluation import floor

__all__ = ["ACTION_TYPE", "ANONYMOUS", "Session", "Stage"]

ACTION_TYPE = "generate"
ANONYMOUS = "anonymous"
Stage = Literal["input", "output"]


class Session:
    """Where one call stands. Not to be shared."""

    def __init__(
        self,
        prompt: str,
        *,
        pipeline: Pipeline,
        gate: Gate | None = None,
        monitor: Monitor | None = None,
        key: str = ANONYMOUS,
        cost: int = 1,
        request: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        locale: str | None = None,
    ) -> None:
        if not isinstance(prompt, str):
            raise InputTypeError.expected("a prompt", "a text", prompt)
        if key.__class__ is not str or not key:
            raise InputTypeError.expected("a key", "a name", key)
        if cost.__class__ is not int or cost < 1:
            raise InputError(f"a cost is a whole number from 1 on, not `{cost}`", where="cost")
        self.prompt = prompt
        self.pipeline = pipeline
        self.gate = gate
        self.monitor = monitor
        self.tenant = tenant
        self.event = InputText(prompt, locale)
        self._locale = locale
        self.ask = RateAsk(key=key, cost=cost)
        self._request = request
        self._registry = default_registry() if gate is None else gate.registry
        self._findings: list[Finding] = []
        self._record: DecisionRecord | None = None

    def found(self, findings: Iterable[Finding]) -> bool:
        """Take note of findings; return whether there are any."""
        before = len(self._findings)
        self._findings += findings
        return len(self._findings) > before

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that was found so far."""
        return tuple(self._findings)

    def decided(self, record: DecisionRecord) -> None:
        """Take note of the gate's decision."""
        self._record = record

    def request(self, stage: Stage) -> dict[str, Any]:
        """Return the request to decide at this stage; the second one is another request."""
        given = dict(self._request or {})
        extensions = given.get("extensions") or {}
        asked = {
            **given,
            "action": given.get("action") or {"type": ACTION_TYPE},
            "extensions": {**extensions, "stage": stage},
        }
        if stage == "output" and isinstance(given.get("request_id"), str):
            asked["request_id"] = f"{given['request_id']}/output"
        return asked

    @property
    def blocked(self) -> bool:
        """Whether the answer must not be given: by the gate's word, or else by the findings'."""
        if self._record is not None:
            return not self._record.may_execute
        return any(self.counts(found.code, found.action) for found in self._findings)

    def counts(self, code: str, action: Action) -> bool:
        """Return whether a finding of that kind stops the answer where no gate decides."""
        entry = self._registry[code]
        # Neither what nobody could judge nor what obliges can be a mere warning.
        return action is not Action.WARN or not entry.decided or bool(entry.obligations)

    def answered(self, text: str) -> Generated:
        """Return the model's answer, which may be given."""
        resources = self._resources()
        return Generated(
            with_resources(text, resources),
            findings=self.findings,
            record=self._record,
            obligations=self._obligations(),
            resources=resources,
        )

    def refused(self) -> Generated:
        """Return what to say instead of an answer."""
        refusal = self._refusal()
        resources = self._resources()
        return Generated(
            answer_for(refusal, resources, self._locale),
            blocked=True,
            findings=self.findings,
            record=self._record,
            refusal=refusal,
            obligations=self._obligations(),
            resources=resources,
        )

    def failed(self, error: BaseException | str, who: str = "the model") -> Generated:
        """Return what to say if the model failed, or `who` else did: that is no refusal."""
        kind = error if isinstance(error, str) else type(error).__name__
        finding = Finding(
            code=ReasonCode.INTERNAL_ERROR,
            surface=Surface.RUNTIME,
            # The words of an error may quote the prompt.
            detail=f"{who} failed: {kind}"[:120],
            evidence={"error": kind, "stage": who.rpartition(" ")[2]},
        )
        resources = self._resources()
        return Generated(
            with_resources(FAILED, resources),
            findings=self.findings,
            record=self._record,
            error=finding,
            obligations=self._obligations(),
            resources=resources,
        )

    def _refusal(self) -> Refusal:
        counted = [one for one in self._findings if self.counts(one.code, one.action)]
        record = self._record
        codes = [found.code for found in counted] if record is None else record.reason_codes
        code = max(codes, key=self._strictness)
        found = next((one for one in counted if one.code == code), None)
        decision_id = None if record is None else record.decision_id
        if found is None:
            detail = "" if record is None else record.explanation.summary
            return Refusal.of(code, detail, decision_id=decision_id, registry=self._registry)
        return Refusal.of(
            code,
            found.detail,
            evidence=found.evidence,
            surface=found.surface,
            decision_id=decision_id,
            registry=self._registry,
        )

    def _strictness(self, code: str) -> int:
        entry = self._registry[code]
        asked = {one.action for one in self._findings if one.code == code} or {Action.BLOCK}
        return max(floor(entry, action).precedence for action in asked)

    def _obligations(self) -> tuple[Obligation, ...]:
        named = {
            duty for found in self._findings for duty in self._registry[found.code].obligations
        }
        if self._record is not None:
            named |= set(self._record.obligations)
        return tuple(duty for duty in Obligation if duty in named)

    def _resources(self) -> tuple[str, ...]:
        return help_lines(self._findings, self._obligations(), self._locale)

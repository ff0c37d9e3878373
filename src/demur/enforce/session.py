"""The state of one guarded model call: findings so far, decision, and the resulting answer.

It is the same for sync and async calls, and for whole and streamed answers.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from demur.codes.default import default_registry
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.enforce.answers import FAILED, with_resources
from demur.enforce.generated import Generated
from demur.enforce.ruling import Ruling, rule
from demur.errors import InputError, InputTypeError
from demur.gate.activation import Monitor
from demur.gate.gate import Gate
from demur.gate.pipeline import Pipeline
from demur.gate.rate_guard import RateAsk
from demur.guards.input.guard import InputText
from demur.model.finding import Finding
from demur.model.record import DecisionRecord

__all__ = ["ACTION_TYPE", "ANONYMOUS", "Session", "Stage"]

ACTION_TYPE = "generate"
ANONYMOUS = "anonymous"
Stage = Literal["input", "output"]


class Session:
    """The state of one call. Not to be shared."""

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
        self.registry = default_registry() if gate is None else gate.registry
        self._findings: list[Finding] = []
        self._record: DecisionRecord | None = None

    def found(self, findings: Iterable[Finding]) -> bool:
        """Add findings; return whether there are any."""
        before = len(self._findings)
        self._findings += findings
        return len(self._findings) > before

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings so far."""
        return tuple(self._findings)

    def decided(self, record: DecisionRecord) -> None:
        """Keep the gate's decision."""
        self._record = record

    def request(self, stage: Stage) -> dict[str, Any]:
        """Return the request to decide at this stage; each stage has its own request id."""
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
    def ruling(self) -> Ruling:
        """The result of findings and decision so far."""
        return rule(
            Surface.MODEL,
            self._findings,
            self._record,
            registry=self.registry,
            locale=self._locale,
        )

    def answered(self, text: str) -> Generated:
        """Return the model's answer if it is allowed, or the text to show instead."""
        ruling = self.ruling
        return self._generated(
            ruling, with_resources(text, ruling.resources) if ruling.allowed else ruling.words
        )

    def failed(self, error: BaseException | str, who: str = "the model") -> Generated:
        """Return the answer if the model (or another `component`) failed: that is no refusal."""
        kind = error if isinstance(error, str) else type(error).__name__
        finding = Finding(
            code=ReasonCode.INTERNAL_ERROR,
            surface=Surface.RUNTIME,
            # The message of an error may quote the prompt.
            detail=f"{who} failed: {kind}"[:120],
            evidence={"error": kind, "stage": who.rpartition(" ")[2]},
        )
        ruling = self.ruling
        text = with_resources(FAILED, ruling.resources)
        return self._generated(ruling, text)._replace(blocked=False, refusal=None, error=finding)

    @staticmethod
    def _generated(ruling: Ruling, text: str) -> Generated:
        return Generated(
            text,
            blocked=not ruling.allowed,
            findings=ruling.findings,
            record=ruling.record,
            refusal=ruling.refusal,
            obligations=ruling.obligations,
            resources=ruling.resources,
        )

"""The context of a call (framework, run, subject), and the state of one guarded model call."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from demur.codes.loading import default_registry
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.enforce.result import (
    FAILURE_TEXT,
    CheckResult,
    GuardedAnswer,
    append_resources,
    build_result,
)
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.monitor import Monitor
from demur.gate.pipeline import GuardPipeline
from demur.gate.rate import RateRequest
from demur.guards.input import InputText
from demur.model.finding import Finding
from demur.model.record import DecisionRecord

ACTION_TYPE = "generate"
ANONYMOUS = "anonymous"
GenerationStage = Literal["input", "output"]


class GenerationSession:
    """The state of one call. Not to be shared."""

    def __init__(
        self,
        prompt: str,
        *,
        pipeline: GuardPipeline,
        gate: Gate | None = None,
        monitor: Monitor | None = None,
        key: str = ANONYMOUS,
        cost: int = 1,
        request: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        locale: str | None = None,
    ) -> None:
        if not isinstance(prompt, str):
            raise InputTypeError.wrong_type("a prompt", "a text", prompt)
        if key.__class__ is not str or not key:
            raise InputTypeError.wrong_type("a key", "a name", key)
        if cost.__class__ is not int or cost < 1:
            raise InputError(f"a cost is a whole number from 1 on, not `{cost}`", where="cost")
        self.prompt = prompt
        self.pipeline = pipeline
        self.gate = gate
        self.monitor = monitor
        self.tenant = tenant
        self.event = InputText(prompt, locale)
        self._locale = locale
        self.rate_request = RateRequest(key=key, cost=cost)
        self._request = request
        self.registry = default_registry() if gate is None else gate.registry
        self._findings: list[Finding] = []
        self._record: DecisionRecord | None = None

    def add_findings(self, findings: Iterable[Finding]) -> bool:
        """Add findings; return whether there are any."""
        before = len(self._findings)
        self._findings += findings
        return len(self._findings) > before

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings so far."""
        return tuple(self._findings)

    def set_record(self, record: DecisionRecord) -> None:
        """Keep the gate's decision."""
        self._record = record

    def build_request(self, stage: GenerationStage) -> dict[str, Any]:
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
    def result(self) -> CheckResult:
        """The result of findings and decision so far."""
        return build_result(
            Surface.MODEL,
            self._findings,
            self._record,
            registry=self.registry,
            locale=self._locale,
        )

    def finish_answer(self, text: str) -> GuardedAnswer:
        """Return the model's answer if it is allowed, or the text to show instead."""
        ruling = self.result
        return self._build_answer(
            ruling, append_resources(text, ruling.resources) if ruling.allowed else ruling.user_text
        )

    def finish_failure(
        self, error: BaseException | str, component: str = "the model"
    ) -> GuardedAnswer:
        """Return the answer if the model (or another `component`) failed: that is no refusal."""
        kind = error if isinstance(error, str) else type(error).__name__
        finding = Finding(
            code=ReasonCode.INTERNAL_ERROR,
            surface=Surface.RUNTIME,
            # The message of an error may quote the prompt.
            detail=f"{component} failed: {kind}"[:120],
            evidence={"error": kind, "stage": component.rpartition(" ")[2]},
        )
        ruling = self.result
        text = append_resources(FAILURE_TEXT, ruling.resources)
        return self._build_answer(ruling, text)._replace(blocked=False, refusal=None, error=finding)

    @staticmethod
    def _build_answer(result: CheckResult, text: str) -> GuardedAnswer:
        return GuardedAnswer(
            text,
            blocked=not result.allowed,
            findings=result.findings,
            record=result.record,
            refusal=result.refusal,
            obligations=result.obligations,
            resources=result.resources,
        )


class CallContext(NamedTuple):
    """The framework and run of a call, and the subject it is made for.

    `framework`, `run` and `call_id` are recorded. `run` is the key of the history of tool calls: a
    run, session or thread of one agent. `subject` (`id`, `type`, `roles`) is the requester;
    `key` is the key of rate limits, if it is another one. They override the enforcer's defaults.
    """

    framework: str = ""
    run: str | None = None
    call_id: str | None = None
    subject: Mapping[str, Any] | None = None
    tenant: str | None = None
    key: str | None = None

    @property
    def trace(self) -> dict[str, str]:
        """The part that is recorded."""
        named = {"framework": self.framework, "run": self.run, "call_id": self.call_id}
        return {name: value for name, value in named.items() if value}

    def rate_key(self, subject: Mapping[str, Any] | None) -> str:
        """Return the key of rate limits for a call by `subject`."""
        name = self.key or (subject or {}).get("id")
        return name if isinstance(name, str) and name else ANONYMOUS

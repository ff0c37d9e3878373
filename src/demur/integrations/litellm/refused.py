"""A refusal in LiteLLM's own forms: its guardrail exception, and its log of guardrails."""

from collections.abc import Iterable, Sequence
from typing import Any

from litellm.exceptions import GuardrailRaisedException
from litellm.types.utils import GuardrailStatus, GuardrailTracingDetail

from demur.emit.problem import to_problem
from demur.enforce.answers import append_resources
from demur.enforce.ruling import Refused, CheckResult
from demur.integrations.litellm.reading import as_json

__all__ = [
    "GuardrailRefused",
    "add_resources",
    "attach_envelope",
    "keep_allowed_calls",
    "guardrail_status",
    "replace_result",
    "tracing_detail",
]


class GuardrailRefused(Refused, GuardrailRaisedException):
    """A request or response was refused; `result` and `envelope` say why.

    The proxy turns it into an HTTP error with the status of the reason code, the code as
    `code`, and the envelope in `provider_specific_fields` under `refusal`. `blocked_content` is
    false if a check failed and demur could not judge.
    """

    def __init__(self, result: CheckResult, guardrail_name: str | None = None) -> None:
        super().__init__(result)
        GuardrailRaisedException.__init__(
            self,
            guardrail_name=guardrail_name,
            message=result.line,
            should_wrap_with_default_message=False,
            status_code=to_problem(self.refusal)["status"],
            blocked_content=not result.is_undecided,
        )
        self.code = self.refusal.code
        self.provider_specific_fields = {"refusal": result.envelope}

    def __reduce__(self) -> Any:
        return type(self), (self.result, self.guardrail_name)


def guardrail_status(result: CheckResult) -> GuardrailStatus:
    """Return LiteLLM's status for a check result; a failed check has not intervened."""
    if result.is_undecided:
        return "guardrail_failed_to_respond"
    if not result.allowed:
        return "guardrail_intervened"
    return "guardrail_flagged" if result.findings else "success"


def tracing_detail(result: CheckResult) -> GuardrailTracingDetail:
    """Return codes, class and advice for dashboards, without user text."""
    codes = [] if result.record is None else [*result.record.reason_codes]
    codes += [found.code for found in result.findings]
    detail = GuardrailTracingDetail(
        violation_categories=list(dict.fromkeys(codes)),
        guardrail_action="allow" if result.allowed else "refuse",
    )
    if result.record is not None:
        detail["guardrail_id"] = result.record.decision_id
    if result.refusal is not None:
        shown = ("code", "refusal_class", "advice", "decided")
        detail["classification"] = {name: result.envelope[name] for name in shown}
    return detail


def attach_envelope(holder: Any, result: CheckResult) -> None:
    """Add the envelope to a message or chunk, in `provider_specific_fields`."""
    fields = getattr(holder, "provider_specific_fields", None) or {}
    holder.provider_specific_fields = {**fields, "refusal": result.envelope}


def keep_allowed_calls(holder: Any, calls: Sequence[Any], results: Sequence[CheckResult]) -> None:
    """Keep the allowed tool calls of a message, and attach the first refusal of the others."""
    refused = [one for one in results if not one.allowed]
    if refused:
        attach_envelope(holder, refused[0])
    holder.tool_calls = [
        call for call, ruling in zip(calls, results, strict=True) if ruling.allowed
    ]


def replace_result(messages: list[Any], position: int, result: CheckResult) -> list[Any]:
    """Return the messages with a tool output replaced by its refusal."""
    said = {**as_json(messages[position]), "content": result.model_message}
    return [*messages[:position], said, *messages[position + 1 :]]


def add_resources(response: Any, text: str, resources: Iterable[str]) -> None:
    """Append the help lines to the message with this text."""
    lines = tuple(resources)
    for choice in getattr(response, "choices", ()) if lines else ():
        message = getattr(choice, "message", None)
        if message is not None and message.content == text:
            message.content = append_resources(text, lines)

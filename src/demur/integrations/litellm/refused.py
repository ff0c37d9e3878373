"""A refusal in LiteLLM's own forms: its guardrail exception, and its log of guardrails."""

from collections.abc import Iterable, Sequence
from typing import Any

from litellm.exceptions import GuardrailRaisedException
from litellm.types.utils import GuardrailStatus, GuardrailTracingDetail

from demur.emit.problem import to_problem
from demur.enforce.answers import with_resources
from demur.enforce.ruling import Refused, Ruling
from demur.integrations.litellm.reading import as_json

__all__ = [
    "GuardrailRefused",
    "add_help",
    "beside",
    "keep",
    "status_of",
    "told",
    "traced",
]


class GuardrailRefused(Refused, GuardrailRaisedException):
    """A request or response was refused; `result` and `envelope` say why.

    The proxy turns it into an HTTP error with the status of the reason code, the code as
    `code`, and the envelope in `provider_specific_fields` under `refusal`. `blocked_content` is
    false if a check failed and demur could not judge.
    """

    def __init__(self, ruling: Ruling, guardrail_name: str | None = None) -> None:
        super().__init__(ruling)
        GuardrailRaisedException.__init__(
            self,
            guardrail_name=guardrail_name,
            message=ruling.line,
            should_wrap_with_default_message=False,
            status_code=to_problem(self.refusal)["status"],
            blocked_content=not ruling.failed,
        )
        self.code = self.refusal.code
        self.provider_specific_fields = {"refusal": ruling.envelope}

    def __reduce__(self) -> Any:
        return type(self), (self.ruling, self.guardrail_name)


def status_of(ruling: Ruling) -> GuardrailStatus:
    """Return LiteLLM's status for a check result; a failed check has not intervened."""
    if ruling.failed:
        return "guardrail_failed_to_respond"
    if not ruling.allowed:
        return "guardrail_intervened"
    return "guardrail_flagged" if ruling.findings else "success"


def traced(ruling: Ruling) -> GuardrailTracingDetail:
    """Return codes, class and advice for dashboards, without user text."""
    codes = [] if ruling.record is None else [*ruling.record.reason_codes]
    codes += [found.code for found in ruling.findings]
    detail = GuardrailTracingDetail(
        violation_categories=list(dict.fromkeys(codes)),
        guardrail_action="allow" if ruling.allowed else "refuse",
    )
    if ruling.record is not None:
        detail["guardrail_id"] = ruling.record.decision_id
    if ruling.refusal is not None:
        shown = ("code", "refusal_class", "advice", "decided")
        detail["classification"] = {name: ruling.envelope[name] for name in shown}
    return detail


def beside(holder: Any, ruling: Ruling) -> None:
    """Add the envelope to a message or chunk, in `provider_specific_fields`."""
    fields = getattr(holder, "provider_specific_fields", None) or {}
    holder.provider_specific_fields = {**fields, "refusal": ruling.envelope}


def keep(holder: Any, calls: Sequence[Any], rulings: Sequence[Ruling]) -> None:
    """Keep the allowed tool calls of a message, and attach the first refusal of the others."""
    refused = [one for one in rulings if not one.allowed]
    if refused:
        beside(holder, refused[0])
    holder.tool_calls = [
        call for call, ruling in zip(calls, rulings, strict=True) if ruling.allowed
    ]


def told(messages: list[Any], place: int, ruling: Ruling) -> list[Any]:
    """Return the messages with a tool output replaced by its refusal."""
    said = {**as_json(messages[place]), "content": ruling.message}
    return [*messages[:place], said, *messages[place + 1 :]]


def add_help(response: Any, text: str, resources: Iterable[str]) -> None:
    """Append the help lines to the message with this text."""
    lines = tuple(resources)
    for choice in getattr(response, "choices", ()) if lines else ():
        message = getattr(choice, "message", None)
        if message is not None and message.content == text:
            message.content = with_resources(text, lines)

"""Every form that a refusal can take elsewhere, in one table."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from demur.emit.claude_code import from_claude_code, to_claude_code
from demur.emit.cloudevents import from_cloudevents, to_cloudevents
from demur.emit.envelope import from_envelope, to_envelope
from demur.emit.mcp import from_mcp, to_mcp
from demur.emit.mcp_denial import from_mcp_denial, to_mcp_denial
from demur.emit.ocsf import from_ocsf, to_ocsf
from demur.emit.openai import from_openai, to_openai, to_openai_part
from demur.emit.problem import from_problem, to_problem
from demur.model.refusal import Refusal

__all__ = ["FORMS", "Form"]


class Form(NamedTuple):
    """One format: its writer and reader, its arguments, and whether it keeps everything."""

    write: Callable[..., dict[str, Any]]
    read: Callable[[object], Refusal | None]
    summary: str
    whole: bool = True
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "claude-code": Form(
            *(to_claude_code, from_claude_code, "output of a Claude Code hook"),
            whole=False,
            takes=("event", "ask", "halt"),
        ),
        "cloudevents": Form(
            *(to_cloudevents, from_cloudevents, "CloudEvents 1.0 event"),
            needs=("event_id", "time", "source"),
            takes=("subject",),
        ),
        "envelope": Form(to_envelope, from_envelope, "the refusal itself, complete"),
        "mcp": Form(to_mcp, from_mcp, "MCP tool result"),
        "mcp-denial": Form(
            *(to_mcp_denial, from_mcp_denial, "MCP denial, as the draft has it"),
            takes=("request_id", "registry"),
        ),
        "ocsf": Form(
            *(to_ocsf, from_ocsf, "OCSF Detection Finding"),
            needs=("event_id", "time"),
            takes=("registry",),
        ),
        "openai": Form(
            *(to_openai, from_openai, "OpenAI-style chat message"), whole=False, takes=("words",)
        ),
        "openai-part": Form(
            *(to_openai_part, from_openai, "OpenAI-style content part"),
            whole=False,
            takes=("words",),
        ),
        "problem": Form(
            *(to_problem, from_problem, "RFC 9457 problem details"), takes=("instance", "registry")
        ),
    }
)

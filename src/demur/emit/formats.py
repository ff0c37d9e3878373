"""Every format that demur can write a refusal in."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from demur.emit.envelope import from_envelope, from_problem, to_envelope, to_problem
from demur.emit.events import from_cloudevents, from_ocsf, to_cloudevents, to_ocsf
from demur.emit.hosts import (
    from_claude_code,
    from_mcp,
    from_mcp_denial,
    from_openai,
    to_claude_code,
    to_mcp,
    to_mcp_denial,
    to_openai,
    to_openai_part,
)
from demur.model.refusal import Refusal


class EmitFormat(NamedTuple):
    """One format: its writer and reader, its arguments, and whether it keeps everything."""

    write: Callable[..., dict[str, Any]]
    read: Callable[[object], Refusal | None]
    summary: str
    is_lossless: bool = True
    required_arguments: tuple[str, ...] = ()
    optional_arguments: tuple[str, ...] = ()


EMIT_FORMATS: Mapping[str, EmitFormat] = MappingProxyType(
    {
        "claude-code": EmitFormat(
            to_claude_code,
            from_claude_code,
            "output of a Claude Code hook",
            is_lossless=False,
            optional_arguments=("event", "ask", "halt"),
        ),
        "cloudevents": EmitFormat(
            to_cloudevents,
            from_cloudevents,
            "CloudEvents 1.0 event",
            required_arguments=("event_id", "time", "source"),
            optional_arguments=("subject",),
        ),
        "envelope": EmitFormat(to_envelope, from_envelope, "the refusal itself, complete"),
        "mcp": EmitFormat(to_mcp, from_mcp, "MCP tool result"),
        "mcp-denial": EmitFormat(
            to_mcp_denial,
            from_mcp_denial,
            "MCP denial, as the draft has it",
            optional_arguments=("request_id", "registry"),
        ),
        "ocsf": EmitFormat(
            to_ocsf,
            from_ocsf,
            "OCSF Detection Finding",
            required_arguments=("event_id", "time"),
            optional_arguments=("registry",),
        ),
        "openai": EmitFormat(
            to_openai,
            from_openai,
            "OpenAI-style chat message",
            is_lossless=False,
            optional_arguments=("words",),
        ),
        "openai-part": EmitFormat(
            to_openai_part,
            from_openai,
            "OpenAI-style content part",
            is_lossless=False,
            optional_arguments=("words",),
        ),
        "problem": EmitFormat(
            to_problem,
            from_problem,
            "RFC 9457 problem details",
            optional_arguments=("instance", "registry"),
        ),
    }
)

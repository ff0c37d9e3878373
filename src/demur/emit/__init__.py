"""Refusals in the formats of other systems."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.emit.envelope import (
        PROBLEM_MEDIA_TYPE,
        from_envelope,
        from_problem,
        from_refusal_line,
        to_envelope,
        to_problem,
    )
    from demur.emit.events import from_cloudevents, from_ocsf, to_cloudevents, to_ocsf
    from demur.emit.formats import EMIT_FORMATS, EmitFormat
    from demur.emit.hosts import (
        HookDenial,
        from_claude_code,
        from_mcp,
        from_mcp_denial,
        from_openai,
        to_claude_code,
        to_hook_exit,
        to_mcp,
        to_mcp_denial,
        to_openai,
        to_openai_part,
    )

__all__ = [
    "EMIT_FORMATS",
    "PROBLEM_MEDIA_TYPE",
    "EmitFormat",
    "HookDenial",
    "from_claude_code",
    "from_cloudevents",
    "from_envelope",
    "from_mcp",
    "from_mcp_denial",
    "from_ocsf",
    "from_openai",
    "from_problem",
    "from_refusal_line",
    "to_claude_code",
    "to_cloudevents",
    "to_envelope",
    "to_hook_exit",
    "to_mcp",
    "to_mcp_denial",
    "to_ocsf",
    "to_openai",
    "to_openai_part",
    "to_problem",
]

_HOMES = {
    "demur.emit.envelope": (
        "PROBLEM_MEDIA_TYPE from_envelope from_problem from_refusal_line to_envelope to_problem"
    ),
    "demur.emit.events": "from_cloudevents from_ocsf to_cloudevents to_ocsf",
    "demur.emit.formats": "EMIT_FORMATS EmitFormat",
    "demur.emit.hosts": (
        "HookDenial from_claude_code from_mcp from_mcp_denial from_openai to_claude_code "
        "to_hook_exit to_mcp to_mcp_denial to_openai to_openai_part"
    ),
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)

"""Google ADK: a plugin that guards all agents of a runner.

`App(..., plugins=[GoogleADKGuard(enforcer)])` checks user messages, answers, streams, tool calls,
their results and code. A refusal is an event with `error_code`, the refusal line as
`error_message`, and the envelope in `custom_metadata["refusal"]`.
"""

from demur.integrations._kit import missing_extra

try:
    import google.adk.plugins.base_plugin  # noqa: F401 - fail early with the name of the extra
except ImportError as error:
    raise missing_extra("google-adk") from error

from demur.integrations.google_adk.plugin import GoogleADKGuard

__all__ = ["GoogleADKGuard"]

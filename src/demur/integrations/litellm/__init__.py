"""LiteLLM: guarded functions for programs, and a guardrail for the proxy.

In a program, `guard_litellm(enforcer)` returns LiteLLM's functions, or those of a router, with
checks around them. For the proxy, name `demur.integrations.litellm.LiteLLMGuard` as `guardrail`
in its YAML, with the settings file as `demur_config`; refusals raise `GuardrailRefused`. In a
program the guardrail also works as a callback, for async calls only.
"""

from demur.integrations._kit import missing_extra

try:
    import litellm.integrations.custom_guardrail  # noqa: F401 - fail early with the extra's name
except ImportError as error:
    raise missing_extra("litellm") from error

from demur.integrations._kit.model_api import CallTrace, GuardOptions, read_check_result, read_trace
from demur.integrations.litellm.client import GuardedLiteLLM, guard_litellm
from demur.integrations.litellm.guardrail import LiteLLMGuard
from demur.integrations.litellm.output import GuardrailRefused

__all__ = [
    "CallTrace",
    "GuardOptions",
    "GuardedLiteLLM",
    "GuardrailRefused",
    "LiteLLMGuard",
    "guard_litellm",
    "read_check_result",
    "read_trace",
]

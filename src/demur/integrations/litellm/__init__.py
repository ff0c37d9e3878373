"""LiteLLM: a guardrail for the SDK and the proxy.

`RefusalGuardrail(enforcer)` is a callback for the SDK; the proxy builds one from its YAML,
where `guardrail: demur.integrations.litellm.RefusalGuardrail` names it and `demur_config` the
settings file. What is refused is raised as `GuardrailRefused`.
"""

from demur.integrations.extras import missing_extra

try:
    import litellm.integrations.custom_guardrail  # noqa: F401 - only to say at once what is missing
except ImportError as error:
    raise missing_extra("litellm") from error

from demur.integrations.litellm.guardrail import RefusalGuardrail
from demur.integrations.litellm.refused import GuardrailRefused

__all__ = ["GuardrailRefused", "RefusalGuardrail"]

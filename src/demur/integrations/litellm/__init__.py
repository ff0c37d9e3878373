"""LiteLLM: guarded functions for programs, and a guardrail for the proxy.

`guard_litellm(enforcer)` gives a program LiteLLM's functions with guards around them, those of
a router too. `RefusalGuardrail` is for the proxy, which builds one from its YAML, where
`guardrail: demur.integrations.litellm.RefusalGuardrail` names it and `demur_config` the
settings file; what it refuses is raised as `GuardrailRefused`. In a program it is a callback,
for awaited calls alone.
"""

from demur.integrations.extras import missing_extra

try:
    import litellm.integrations.custom_guardrail  # noqa: F401 - only to say at once what is missing
except ImportError as error:
    raise missing_extra("litellm") from error

from demur.integrations.litellm.client import GuardedLiteLLM, guard_litellm
from demur.integrations.litellm.guardrail import RefusalGuardrail
from demur.integrations.litellm.refused import GuardrailRefused

__all__ = ["GuardedLiteLLM", "GuardrailRefused", "RefusalGuardrail", "guard_litellm"]

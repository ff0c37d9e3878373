"""Pydantic AI: a capability that holds an agent's runs to the gate's word.

`Agent(..., capabilities=[RefusalCapability(enforcer)])` guards prompts, answers, streams and
tools before anything comes of them. What ends a run is raised as `RunRefused`.
"""

from demur.integrations.extras import missing_extra

try:
    import pydantic_ai.capabilities  # noqa: F401 - only to say at once what is missing
except ImportError as error:
    raise missing_extra("pydantic-ai") from error

from demur.integrations.pydantic_ai.capability import RefusalCapability
from demur.integrations.pydantic_ai.refused import RunRefused

__all__ = ["RefusalCapability", "RunRefused"]

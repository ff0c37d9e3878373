"""Pydantic AI: a capability that guards the runs of an agent.

`Agent(..., capabilities=[PydanticAIGuard(enforcer)])` checks prompts, answers, streams and tool
calls. A refusal that ends the run raises `RunRefused`.
"""

from demur.integrations._kit import missing_extra

try:
    import pydantic_ai.capabilities  # noqa: F401 - fail early with the name of the extra
except ImportError as error:
    raise missing_extra("pydantic-ai") from error

from demur.integrations.pydantic_ai.capability import PydanticAIGuard
from demur.integrations.pydantic_ai.messages import RunRefused

__all__ = ["PydanticAIGuard", "RunRefused"]

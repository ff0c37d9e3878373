"""Every reader, in the order of precedence: the first that finds a refusal decides.

A reader is a module with a `NAME`, the name of its data file, and a pure function
`read(shape) -> Signal | None` that returns None for a response of another system. The
meaning of values comes from the mapping of that name. A reader never raises on purpose,
and a bug in one does not stop the others.
"""

from functools import cache
from importlib import import_module
from typing import Protocol, cast

from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal

__all__ = ["READERS", "ProviderReader", "load_readers"]


class ProviderReader(Protocol):
    """A module that reads the responses of one system."""

    NAME: str

    def read(self, shape: ResponseShape, /) -> Signal | None:
        """Return the deciding signal in `shape`, or None."""


# Modules of this package, by name.
READERS: tuple[str, ...] = (
    # -- frameworks, guardrails and agent hosts: they wrap answers of models, and often know more
    "own_refusal",
    "mcp",
    "claude_code",
    "opa",
    "litellm",
    "langchain",
    "pydantic_ai",
    "openai_agents",
    "microsoft_agents",
    "instructor",
    "inspect_ai",
    "vercel_ai",
    "strands",
    "nemo",
    "guardrails_ai",
    "llm_guard",
    # -- models and clouds; of a shared format, the reader that knows more comes first
    "azure_openai",
    "openrouter",
    "openai_chat",
    "openai_responses",
    "openai_errors",
    "anthropic",
    "anthropic_agents",
    "gemini",
    "model_armor",
    "bedrock",
    "mistral",
    "cohere",
    "gateways",
    "openai_compatible",
    "guard_models",
    "a2a",
    # -- last, errors that no mapping lists
    "unlisted",
)


@cache
def load_readers() -> tuple[ProviderReader, ...]:
    """Return every reader, loaded once."""
    return tuple(cast("ProviderReader", import_module(f"{__package__}.{name}")) for name in READERS)

"""Every reader, in the order in which they are asked: the first that tells decides.

A reader is a module with a `NAME`, the name of its data file, and a pure function
`read(shape) -> Signal | None`: what it finds in a `Shape`, or None if the shape is not
its own. What values mean it takes from `mapping.system(NAME)`; it never raises on
purpose, and a mistake in one reader does not keep the others from being asked.
"""

from functools import cache
from importlib import import_module
from typing import Protocol, cast

from demur.providers.shape import Shape
from demur.providers.signal import Signal

__all__ = ["READERS", "Reader", "readers"]


class Reader(Protocol):
    """One module that knows one system."""

    NAME: str

    def read(self, shape: Shape, /) -> Signal | None:
        """Return the signal that decides in `shape`, or None if there is none of this system."""


# Modules of this package, by name.
READERS: tuple[str, ...] = (
    # -- frameworks, guardrails and agent hosts: they wrap what models say, and often know more
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
    # -- models and clouds; a reader that knows more of a shared format stands before the others
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
    # -- and last of all, errors that nobody listed
    "unlisted",
)


@cache
def readers() -> tuple[Reader, ...]:
    """Return every reader, loaded once."""
    return tuple(cast("Reader", import_module(f"{__package__}.{name}")) for name in READERS)

"""Every reader, in the order of precedence: the first that finds a refusal decides.

A reader is a pure function `read_<system>(shape) -> Signal | None` that returns None for a
response of another system. It takes the meaning of values from the mapping of its system. A
reader never raises on purpose, and a bug in one does not stop the others.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pkgutil import resolve_name

from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal

ProviderReader = Callable[[ResponseShape], Signal | None]

# The function of each reader in this package, and the mapping in `data/` that it uses.
READERS: Mapping[str, str] = {
    # -- frameworks, guardrails and agent hosts: they wrap answers of models, and often know more
    "protocols.read_own_refusal": "demur",
    "protocols.read_mcp": "mcp",
    "claude_code.read_claude_code": "claude_code",
    "guardrails.read_opa": "opa",
    "client_libraries.read_litellm": "litellm",
    "agent_frameworks.read_langchain": "langchain",
    "agent_frameworks.read_pydantic_ai": "pydantic_ai",
    "agent_frameworks.read_openai_agents": "openai_agents",
    "agent_frameworks.read_microsoft_agents": "microsoft_agents",
    "client_libraries.read_instructor": "instructor",
    "client_libraries.read_inspect_ai": "inspect_ai",
    "client_libraries.read_vercel_ai": "vercel_ai",
    "agent_frameworks.read_strands": "strands",
    "guardrails.read_nemo": "nemo",
    "guardrails.read_guardrails_ai": "guardrails_ai",
    "guardrails.read_llm_guard": "llm_guard",
    # -- models and clouds; of a shared format, the reader that knows more comes first
    "openai.read_azure_openai": "azure_openai",
    "openai.read_openrouter": "openai_compatible",
    "openai.read_openai_chat": "openai",
    "openai.read_openai_responses": "openai",
    "openai.read_openai_errors": "openai",
    "anthropic.read_anthropic": "anthropic",
    "anthropic.read_anthropic_agents": "anthropic",
    "google.read_gemini": "gemini",
    "google.read_model_armor": "model_armor",
    "bedrock.read_bedrock": "bedrock",
    "models.read_mistral": "mistral",
    "models.read_cohere": "cohere",
    "models.read_gateways": "gateways",
    "openai.read_openai_compatible": "openai_compatible",
    "models.read_guard_models": "guard_models",
    "protocols.read_a2a": "a2a",
    # -- last, errors that no mapping lists
    "models.read_unlisted": "unlisted",
}


@cache
def load_readers() -> tuple[ProviderReader, ...]:
    """Return every reader, loaded once."""
    return tuple(resolve_name(f"{__package__}.{path}") for path in READERS)

"""Starlette and FastAPI: check prompts before a route runs, and answer refusals with problems.

A `PromptGuard` finds the prompt in a body and the caller of a request. It is a FastAPI dependency,
and the guard of `PromptGuardMiddleware`. `refusal_response` turns every `Refused` that a route
raises into problem details (RFC 9457).
"""

from demur.integrations._kit import missing_extra

try:
    import starlette.requests  # noqa: F401 - report a missing extra at once
except ImportError as error:
    raise missing_extra("web", "starlette") from error

from demur.integrations.web.guard import MAX_BODY_BYTES, PromptGuard, prompt_text, refusal_response
from demur.integrations.web.middleware import PromptGuardMiddleware

__all__ = [
    "MAX_BODY_BYTES",
    "PromptGuard",
    "PromptGuardMiddleware",
    "prompt_text",
    "refusal_response",
]

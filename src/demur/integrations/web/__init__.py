"""Starlette and FastAPI: prompts are looked at before a route runs, refusals leave as problems.

A `PromptGuard` knows where the prompt stands in a body and who asks. It is a dependency of
FastAPI, and what `RefusalMiddleware` looks at requests with. `refusal_response` makes problem
details (RFC 9457) of every `Refused`, wherever a route raised it.
"""

from demur.integrations.extras import missing_extra

try:
    import starlette.requests  # noqa: F401 - only to say at once what is missing
except ImportError as error:
    raise missing_extra("web") from error

from demur.integrations.web.guard import LARGEST, PromptGuard
from demur.integrations.web.middleware import RefusalMiddleware
from demur.integrations.web.problem import refusal_response
from demur.integrations.web.prompt import prompt_text

__all__ = ["LARGEST", "PromptGuard", "RefusalMiddleware", "prompt_text", "refusal_response"]

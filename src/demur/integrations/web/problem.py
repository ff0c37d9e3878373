"""Refusals as responses, and the refusals of unreadable requests."""

import math
from typing import Self

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.emit.problem import PROBLEM_MEDIA_TYPE, to_problem
from demur.enforce.ruling import Refused, CheckResult
from demur.model.refusal import Refusal

__all__ = ["UnusableRequestError", "refusal_response"]


class UnusableRequestError(Refused):
    """The refusal of an unreadable request; `status` is the HTTP status of the answer."""

    def __init__(self, result: CheckResult, status: int = 400) -> None:
        super().__init__(result)
        self.status = status

    @classmethod
    def from_problem(cls, problem: str, status: int = 400) -> Self:
        """Return the refusal of a request with that problem."""
        refusal = Refusal.from_code(ReasonCode.REQUEST_INVALID, problem, surface=Surface.INPUT)
        return cls(CheckResult(Surface.INPUT, allowed=False, refusal=refusal), status)

    @classmethod
    def too_large(cls, max_bytes: int) -> Self:
        """Return the refusal of a body above `max_bytes`."""
        return cls.from_problem(f"the body must not exceed {max_bytes} bytes", 413)

    @classmethod
    def from_app_failure(cls, problem: str) -> Self:
        """Return the refusal of a request on which a function of the app failed."""
        refusal = Refusal.from_code(ReasonCode.INTERNAL_ERROR, problem, surface=Surface.RUNTIME)
        return cls(CheckResult(Surface.INPUT, allowed=False, refusal=refusal), 500)

    def __reduce__(self) -> tuple[type[Self], tuple[CheckResult, int]]:  # type: ignore[override] # a pair
        return type(self), (self.result, self.status)


async def refusal_response(request: Request, refused: Exception) -> Response:  # noqa: ARG001 - the signature of Starlette's exception handlers
    """Return a refusal as problem details, with the words for a person as `user_text`.

    Use it as `app.add_exception_handler(Refused, refusal_response)`.
    """
    assert isinstance(refused, Refused)
    problem = {**to_problem(refused.refusal), "words": refused.result.user_text}
    if isinstance(refused, UnusableRequestError):
        problem["status"] = refused.status
    return Response(
        msgspec.json.encode(problem),
        status_code=problem["status"],
        headers=_retry_headers(refused.result),
        media_type=PROBLEM_MEDIA_TYPE,
    )


def _retry_headers(result: CheckResult) -> dict[str, str]:
    step = result.next_step
    wait = None if step is None else step.wait
    return {} if wait is None else {"retry-after": str(max(1, math.ceil(wait)))}

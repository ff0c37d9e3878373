"""Refusals as responses, and the refusals of unreadable requests."""

import math
from typing import Self

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.emit.problem import MEDIA_TYPE, to_problem
from demur.enforce.ruling import Refused, Ruling
from demur.model.refusal import Refusal

__all__ = ["UnusableError", "refusal_response"]


class UnusableError(Refused):
    """The refusal of an unreadable request; `status` is the HTTP status of the answer."""

    def __init__(self, ruling: Ruling, status: int = 400) -> None:
        super().__init__(ruling)
        self.status = status

    @classmethod
    def of(cls, problem: str, status: int = 400) -> Self:
        """Return the refusal of a request with that problem."""
        refusal = Refusal.of(ReasonCode.REQUEST_INVALID, problem, surface=Surface.INPUT)
        return cls(Ruling(Surface.INPUT, allowed=False, refusal=refusal), status)

    @classmethod
    def too_large(cls, largest: int) -> Self:
        """Return the refusal of a body above `max_bytes`."""
        return cls.of(f"the body must not exceed {largest} bytes", 413)

    @classmethod
    def broken(cls, problem: str) -> Self:
        """Return the refusal of a request on which a function of the app failed."""
        refusal = Refusal.of(ReasonCode.INTERNAL_ERROR, problem, surface=Surface.RUNTIME)
        return cls(Ruling(Surface.INPUT, allowed=False, refusal=refusal), 500)

    def __reduce__(self) -> tuple[type[Self], tuple[Ruling, int]]:  # type: ignore[override] # a pair
        return type(self), (self.ruling, self.status)


async def refusal_response(request: Request, refused: Exception) -> Response:  # noqa: ARG001 - the signature of Starlette's exception handlers
    """Return a refusal as problem details, with the words for a person as `words`.

    Use it as `app.add_exception_handler(Refused, refusal_response)`.
    """
    assert isinstance(refused, Refused)
    problem = {**to_problem(refused.refusal), "words": refused.ruling.words}
    if isinstance(refused, UnusableError):
        problem["status"] = refused.status
    return Response(
        msgspec.json.encode(problem),
        status_code=problem["status"],
        headers=_headers(refused.ruling),
        media_type=MEDIA_TYPE,
    )


def _headers(ruling: Ruling) -> dict[str, str]:
    step = ruling.next_step
    wait = None if step is None else step.wait
    return {} if wait is None else {"retry-after": str(max(1, math.ceil(wait)))}

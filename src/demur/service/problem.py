"""Errors as callers see them: RFC 9457 problem details, always with a reason code."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from demur.codes.reason_code import ReasonCode
from demur.emit.envelope import to_problem
from demur.errors import DemurError, one_line
from demur.model.refusal import Refusal


class ProblemError(DemurError):
    """An error answer: its status, reason code, problem, and the part at fault."""

    def __init__(
        self,
        status: int,
        code: ReasonCode,
        problem: str,
        *,
        where: str | None = None,
        help: str | None = None,  # noqa: A002 - as in every error of demur
        headers: Mapping[str, str] | None = None,
        evidence: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(problem, where=where, help=help)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})
        self.evidence = dict(evidence or {})

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process builds the same error."""
        parts: dict[str, Any] = {"where": self.where, "help": self.help, "headers": self.headers}
        args = (self.status, self.code, self.problem)
        return partial(ProblemError, *args, **parts, evidence=self.evidence), ()


def invalid_call(
    status: int,
    problem: str,
    where: str | None = None,
    help: str | None = None,  # noqa: A002 - as in every error of demur
) -> ProblemError:
    """Return the error for an invalid call."""
    return ProblemError(status, ReasonCode.REQUEST_INVALID, problem, where=where, help=help)


def forbidden(problem: str, help: str | None = None) -> ProblemError:  # noqa: A002 - as in every error of demur
    """Return the error for a caller that may not do this."""
    return ProblemError(403, ReasonCode.PERMISSION_DENIED, problem, help=help)


def unavailable(problem: str, code: ReasonCode = ReasonCode.STORAGE_UNAVAILABLE) -> ProblemError:
    """Return the error for a call that may succeed if it is repeated soon."""
    return ProblemError(503, code, problem, headers={"retry-after": "1"})


def problem_details(error: ProblemError, *, instance: str | None = None) -> dict[str, Any]:
    """Return the problem details of an error."""
    refusal = Refusal.from_code(error.code, one_line(error.problem), evidence=error.evidence)
    details = to_problem(refusal, instance=instance)
    more = {"where": error.where, "help": error.help}
    hints = {name: replace_surrogates(value) for name, value in more.items() if value is not None}
    return {**details, "status": error.status, **hints}


def replace_surrogates(text: str) -> str:
    """Return a text as valid UTF-8; lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")

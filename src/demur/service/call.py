"""One call and its answer, as route handlers see them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.errors import DemurError
from demur.service.access import Principal
from demur.service.problem import ProblemError, invalid

if TYPE_CHECKING:
    from demur.service.service import Service

__all__ = ["Answer", "Call", "answer", "json_bytes"]

T = TypeVar("T")
json_bytes = msgspec.json.Encoder().encode
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
# Longer numbers are out of range for every parameter.
_DIGITS = 9


class Answer(NamedTuple):
    """The answer to a call."""

    content: bytes
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = {}


class Call(NamedTuple):
    """One call: its caller, path, query, body and headers."""

    service: "Service"
    caller: Principal
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = b""
    headers: Mapping[str, str] = {}

    def read(self, kind: type[T]) -> T:
        """Return the body, decoded as a type.

        Raises:
            ProblemError: It is no JSON, or not of that type.
        """
        decoder = _decoders.get(kind)
        if decoder is None:
            # Bounded: there are only as many types as routes.
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
        try:
            value: T = decoder.decode(self.body)
        except msgspec.ValidationError as error:
            cause = error.__cause__
            problem, _, at = str(error).partition(" - at ")
            where = at.strip("`").removeprefix("$").lstrip(".") or None
            if isinstance(cause, DemurError):
                raise invalid(422, cause.problem, cause.where or where, cause.help) from error
            raise invalid(422, problem[:1].lower() + problem[1:], where) from error
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise invalid(400, f"the body is not JSON: {error}") from error
        return value

    def number(self, name: str, default: int, *, most: int) -> int:
        """Return a whole number of the query, from 1 to `maximum`.

        Raises:
            ProblemError: It is no number, or out of range.
        """
        text = self.query.get(name)
        if text is None:
            return default
        usual = len(text) <= _DIGITS and text.isascii() and text.isdigit()
        if not usual or not 1 <= int(text) <= most:
            raise invalid(422, f"`{text[:40]}` is not a number from 1 to {most}", name)
        return int(text)

    def tenant(self) -> str | None:
        """Return the tenant to read: the caller's own, or the one that a key of all tenants names.

        Raises:
            ProblemError: The caller may not see them.
        """
        named = self.query.get("tenant")
        if named is None or named == self.caller.tenant:
            return self.caller.tenant
        if self.caller.tenant is not None:
            raise ProblemError(
                403, ReasonCode.PERMISSION_DENIED, "this key belongs to another tenant"
            )
        return named


def answer(value: Any, status: int = 200, **headers: str) -> Answer:
    """Return a value as JSON."""
    return Answer(json_bytes(value), status, headers=headers)

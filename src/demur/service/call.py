"""One call and its answer, as route handlers see them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.errors import DemurError
from demur.service.access import Principal
from demur.service.problem import ProblemError, invalid_request

if TYPE_CHECKING:
    from demur.service.service import Service

__all__ = ["ApiAnswer", "ApiCall", "json_answer", "encode_json"]

T = TypeVar("T")
encode_json = msgspec.json.Encoder().encode
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
# Longer numbers are out of range for every parameter.
_MAX_DIGITS = 9


class ApiAnswer(NamedTuple):
    """The answer to a call."""

    content: bytes
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = {}


class ApiCall(NamedTuple):
    """One call: its caller, path, query, body and headers."""

    service: "Service"
    caller: Principal
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = b""
    headers: Mapping[str, str] = {}

    def decode_body(self, kind: type[T]) -> T:
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
                raise invalid_request(
                    422, cause.problem, cause.where or where, cause.help
                ) from error
            raise invalid_request(422, problem[:1].lower() + problem[1:], where) from error
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise invalid_request(400, f"the body is not JSON: {error}") from error
        return value

    def read_number(self, name: str, default: int, *, maximum: int) -> int:
        """Return a whole number of the query, from 1 to `maximum`.

        Raises:
            ProblemError: It is no number, or out of range.
        """
        text = self.query.get(name)
        if text is None:
            return default
        usual = len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit()
        if not usual or not 1 <= int(text) <= maximum:
            raise invalid_request(422, f"`{text[:40]}` is not a number from 1 to {maximum}", name)
        return int(text)

    def chosen_tenant(self) -> str | None:
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


def json_answer(value: Any, status: int = 200, **headers: str) -> ApiAnswer:
    """Return a value as JSON."""
    return ApiAnswer(encode_json(value), status, headers=headers)

"""Parse the query of a call, and check it against its route."""

from collections.abc import Sequence
from urllib.parse import parse_qsl

from demur.service.problem import invalid_request
from demur.service.route import QueryParameter
from demur.source.suggest import did_you_mean

__all__ = ["read_query"]

_MAX_PARAMETERS = 50
_MAX_VALUE_LENGTH = 500


def read_query(raw: bytes, parameters: Sequence[QueryParameter] | None = None) -> dict[str, str]:
    """Return the parameters of a query; with `parameters`, only those are allowed.

    Raises:
        ProblemError: A parameter is invalid, duplicate or unknown.
    """
    if not raw:
        return {}
    try:
        pairs = parse_qsl(
            raw.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_PARAMETERS
        )
    except ValueError:
        raise invalid_request(400, f"a query has at most {_MAX_PARAMETERS} parameters") from None
    read: dict[str, str] = {}
    schemas = None if parameters is None else {query.name: query.schema for query in parameters}
    for name, value in pairs:
        if schemas is not None and name not in schemas:
            meant = did_you_mean(name[:80], schemas) or f"one of {', '.join(schemas) or 'none'}"
            raise invalid_request(422, f"unknown parameter `{name[:80]}`", help=meant)
        if name in read:
            raise invalid_request(422, "duplicate parameter", name[:80])
        if len(value) > _MAX_VALUE_LENGTH or not value.isprintable():
            raise invalid_request(
                422, f"at most {_MAX_VALUE_LENGTH} printable characters", name[:80]
            )
        choices = () if schemas is None else schemas[name].get("enum", ())
        if choices and value not in choices:
            listed = ", ".join(map(str, choices))
            raise invalid_request(
                422, f"`{value[:80]}` is not an allowed value", name, f"one of {listed}"
            )
        read[name] = value
    return read

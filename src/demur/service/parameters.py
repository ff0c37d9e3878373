"""Parse the query of a call, and check it against its route."""

from collections.abc import Sequence
from urllib.parse import parse_qsl

from demur.service.problem import invalid
from demur.service.route import Query
from demur.source.suggest import did_you_mean

__all__ = ["read_query"]

_MOST = 50
_LONGEST = 500


def read_query(raw: bytes, known: Sequence[Query] | None = None) -> dict[str, str]:
    """Return the parameters of a query; with `parameters`, only those are allowed.

    Raises:
        ProblemError: A parameter is invalid, duplicate or unknown.
    """
    if not raw:
        return {}
    try:
        pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST)
    except ValueError:
        raise invalid(400, f"a query has at most {_MOST} parameters") from None
    read: dict[str, str] = {}
    schemas = None if known is None else {query.name: query.schema for query in known}
    for name, value in pairs:
        if schemas is not None and name not in schemas:
            meant = did_you_mean(name[:80], schemas) or f"one of {', '.join(schemas) or 'none'}"
            raise invalid(422, f"unknown parameter `{name[:80]}`", help=meant)
        if name in read:
            raise invalid(422, "duplicate parameter", name[:80])
        if len(value) > _LONGEST or not value.isprintable():
            raise invalid(422, f"at most {_LONGEST} printable characters", name[:80])
        choices = () if schemas is None else schemas[name].get("enum", ())
        if choices and value not in choices:
            listed = ", ".join(map(str, choices))
            raise invalid(422, f"`{value[:80]}` is not an allowed value", name, f"one of {listed}")
        read[name] = value
    return read

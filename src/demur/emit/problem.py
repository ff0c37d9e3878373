"""A refusal as RFC 9457 problem details, for HTTP APIs that answer refusals as errors.

The members of the envelope are the extension members, so a client reads `code` and
`advice` without knowing this package. The type is a URN: stable, and never fetched.
"""

from typing import Any

from demur.codes.default import registry_or_core
from demur.codes.entry import Entry
from demur.codes.names import local_name
from demur.codes.registry import Registry
from demur.emit.envelope import from_envelope, nested_value, to_envelope
from demur.model.refusal import Refusal

__all__ = ["PROBLEM_MEDIA_TYPE", "PROBLEM_TYPE_PREFIX", "from_problem", "to_problem"]

PROBLEM_MEDIA_TYPE = "application/problem+json"
PROBLEM_TYPE_PREFIX = "urn:demur:code:"

_REFUSED = 403
_NOT_JUDGED = 503


def to_problem(
    refusal: Refusal, *, instance: str | None = None, registry: Registry | None = None
) -> dict[str, Any]:
    """Return the problem; `instance` is a URI of this occurrence. Send it as `PROBLEM_MEDIA_TYPE`.

    The registry gives the status of the code; an unregistered code has that of its parent.

    Raises:
        InputError: The code allows.
    """
    envelope = to_envelope(refusal)
    known = registry_or_core() if registry is None else registry
    entry = known.get(refusal.code)
    # INVARIANT: problem details keep the whole refusal.
    return {
        "type": f"{PROBLEM_TYPE_PREFIX}{refusal.code}",
        "title": entry.title if entry else local_name(refusal.code).replace("_", " ").capitalize(),
        "status": _http_status(refusal, entry or known.get(refusal.parent or "")),
        **({} if instance is None else {"instance": instance}),
        **envelope,
    }


def from_problem(data: object) -> Refusal | None:
    """Return the refusal in problem details, or None.

    If a gateway dropped the extension members, type and detail are enough.
    """
    kind = nested_value(data, "type")
    if not isinstance(kind, str) or not kind.startswith(PROBLEM_TYPE_PREFIX):
        return None
    code = kind.removeprefix(PROBLEM_TYPE_PREFIX)
    if nested_value(data, "schema_version") is None:
        return _from_type_alone(code, nested_value(data, "detail"))
    refusal = from_envelope(data)
    return refusal if refusal is not None and refusal.code == code else None


def _from_type_alone(code: str, detail: object) -> Refusal | None:
    entry = registry_or_core().get(code)
    if entry is None or entry.refusal_class is None:
        return None
    text = detail if isinstance(detail, str) else ""
    return Refusal.from_code(code, text, registry=registry_or_core())


def _http_status(refusal: Refusal, entry: Entry | None) -> int:
    if entry is not None:
        return entry.http
    return _REFUSED if refusal.decided else _NOT_JUDGED

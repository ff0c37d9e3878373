"""The refusal envelope as plain JSON, and as RFC 9457 problem details.

Most formats carry the envelope whole and read it back. Reading never raises: anything that is
not a complete and consistent refusal gives None. Problem details hold the members of the
envelope as extension members, and their type is a URN that is stable and never fetched.
"""

from typing import Any

import msgspec

from demur.codes.entry import local_name
from demur.codes.loading import registry_or_core
from demur.codes.refusal_line import REFUSAL_PREFIX
from demur.codes.registry import Registry
from demur.errors import InputError
from demur.model.refusal import Refusal, refusal_from_envelope


def check_refuses(refusal: Refusal) -> None:
    """Raise unless the code refuses.

    Raises:
        InputError: The code allows.
    """
    if refusal.refusal_class is None:
        problem = f"`{refusal.code}` is a code that allows, so it is not a refusal"
        raise InputError(problem, help="emit only refusals")


def to_envelope(refusal: Refusal) -> dict[str, Any]:
    """Return the refusal as a JSON object.

    Raises:
        InputError: The code allows.
    """
    check_refuses(refusal)
    # INVARIANT: an envelope that was read is the refusal that was written.
    envelope: dict[str, Any] = msgspec.to_builtins(refusal)
    return envelope


def from_envelope(data: object) -> Refusal | None:
    """Return the refusal in the object, or None. demur ignores unknown members.

    For a registered code, class and advice must agree with the registry.
    """
    if not isinstance(data, dict) or data.get("schema_version") != "refusal.v1":
        return None
    refusal = refusal_from_envelope(data)
    return None if refusal is None or refusal.refusal_class is None else refusal


def from_refusal_line(text: object, *, registry: Registry | None = None) -> Refusal | None:
    """Return the refusal in a canonical line, or None. Legacy phrases do not count."""
    if not isinstance(text, str) or not text.startswith(REFUSAL_PREFIX):
        return None
    refusal = Refusal.from_line(text, registry=registry)
    return None if refusal is None or refusal.refusal_class is None else refusal


def nested_value(data: object, *names: str) -> Any:
    """Return the value at the path `names` in nested objects, or None."""
    for name in names:
        if not isinstance(data, dict):
            return None
        data = data.get(name)
    return data


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
    listed = entry or known.get(refusal.parent or "")
    # INVARIANT: problem details keep the whole refusal.
    return {
        "type": f"{PROBLEM_TYPE_PREFIX}{refusal.code}",
        "title": entry.title if entry else local_name(refusal.code).replace("_", " ").capitalize(),
        "status": listed.http if listed else _REFUSED if refusal.decided else _NOT_JUDGED,
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
        detail = nested_value(data, "detail")
        entry = registry_or_core().get(code)
        if entry is None or entry.refusal_class is None:
            return None
        text = detail if isinstance(detail, str) else ""
        return Refusal.from_code(code, text, registry=registry_or_core())
    refusal = from_envelope(data)
    return refusal if refusal is not None and refusal.code == code else None

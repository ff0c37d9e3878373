"""The refusal envelope as plain JSON: what most forms carry whole, and read back.

Reading never raises: what is no refusal of this contract, in whole and without
contradiction, is None. A caller that needs to know why can decode it strictly itself.
"""

from typing import Any

import msgspec

from demur.codes.line import REFUSAL_PREFIX
from demur.codes.registry import Registry
from demur.errors import InputError
from demur.model.received import refusal_from_envelope
from demur.model.refusal import Refusal

__all__ = ["check_refuses", "from_envelope", "from_refusal_line", "nested_value", "to_envelope"]


def check_refuses(refusal: Refusal) -> None:
    """Raise unless the code refuses.

    Raises:
        InputError: The code allows.
    """
    if refusal.refusal_class is None:
        raise InputError(
            f"`{refusal.code}` is a code that allows, so it is not a refusal",
            help="emit only refusals",
        )


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
    """Return the refusal in the object, or None. Unknown members are ignored.

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

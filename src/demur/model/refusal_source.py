"""Who refused, in its own words: the native signal behind a refusal, kept as it came.

A reader that trusts the code needs none of this; one that doubts it finds here
what the provider, framework or guard really said, and where it stood.
"""

from typing import Any

import msgspec

from demur.errors import InputError

__all__ = ["RefusalSource"]


class RefusalSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who saw the reason for a refusal, and what it said of it.

    `native` is plain JSON, verbatim; `path` is where it stood in the response.
    `served_by` names what answered instead: then the refusal was followed by success.
    `confidence` is set only where words were judged, not a typed signal read.
    """

    name: str
    path: str | None = None
    native: Any = None
    served_by: str | None = None
    confidence: float | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("a source needs a name", help="the guard, policy or provider")
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise InputError(f"a confidence lies between 0 and 1, not {self.confidence}")

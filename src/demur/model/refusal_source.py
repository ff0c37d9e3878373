"""The source of a refusal: the native signal of a provider, framework or guard, unchanged.

A reader that trusts the code does not need it; one that doubts the code can check it here.
"""

from typing import Any

import msgspec

from demur.errors import InputError

__all__ = ["RefusalSource"]


class RefusalSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The provider, framework or guard that refused, and its native signal.

    `native` is plain JSON, verbatim; `path` is its place in the response. `served_by` names the
    model that answered instead. `confidence` is set only if prose was classified, not if a
    typed signal was read.
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

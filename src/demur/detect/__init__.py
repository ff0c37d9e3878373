"""Tell refusals in plain prose from answers: fast, local, in many languages."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.detect.detector import (
        RefusalDetection,
        RefusalKind,
        RefusalSpan,
        detect_batch,
        detect_many,
        detect_refusal,
        to_refusal,
    )

__all__ = [
    "RefusalDetection",
    "RefusalKind",
    "RefusalSpan",
    "detect_batch",
    "detect_many",
    "detect_refusal",
    "to_refusal",
]

_HOMES = {
    "demur.detect.detector": (
        "RefusalDetection RefusalKind RefusalSpan "
        "detect_batch detect_many detect_refusal to_refusal"
    ),
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)

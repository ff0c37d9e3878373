"""What was seen of an answer: whether it refuses, how surely, where, and in which language."""

from enum import StrEnum

import msgspec

from demur.codes.vocabulary import Surface
from demur.model.refusal import Refusal
from demur.model.refusal_source import RefusalSource

__all__ = ["DetectionBasis", "RefusalKind", "RefusalSignal", "RefusalSpan", "to_refusal"]

SIGNAL_SOURCE = "detect"


class RefusalKind(StrEnum):
    """How much an answer refuses."""

    FULL = "full"
    PARTIAL = "partial"
    NONE = "none"


class DetectionBasis(StrEnum):
    """The basis of a signal."""

    TYPED = "typed"  # a refusal line with a registered code
    PROSE = "prose"  # the words, weighed
    EMPTY = "empty"  # there was nothing to read
    CODE = "code"  # nothing but code


class RefusalSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence that refuses: `answer[start:end]`."""

    start: int
    end: int


class RefusalSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A judgement on one answer. `code` says why something was declined, `kind` how much.

    `confidence` is that of the kind; `truncated` says that only head and tail were read.
    """

    kind: RefusalKind
    confidence: float
    basis: DetectionBasis = DetectionBasis.PROSE
    spans: tuple[RefusalSpan, ...] = ()
    language: str | None = None
    code: str | None = None
    detail: str = ""
    truncated: bool = False

    @property
    def is_refusal(self) -> bool:
        """Whether anything was refused."""
        return self.kind is not RefusalKind.NONE


def to_refusal(signal: RefusalSignal) -> Refusal | None:
    """Return the refusal that a signal stands for, or None if nothing was refused.

    It does not copy words of the answer: the spans say where they stand.

    Raises:
        UnknownCodeError: The signal carries a code that the registry in force does not know.
    """
    if signal.code is None:
        return None
    typed = signal.basis is DetectionBasis.TYPED
    return Refusal.from_code(
        signal.code,
        signal.detail,
        evidence={
            "kind": signal.kind,
            "basis": signal.basis,
            "language": signal.language,
            "truncated": signal.truncated,
            "spans": [[span.start, span.end] for span in signal.spans],
        },
        surface=Surface.MODEL,
        source=RefusalSource(name=SIGNAL_SOURCE, confidence=None if typed else signal.confidence),
    )

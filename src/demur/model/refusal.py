"""The refusal envelope: everything a consumer needs, with or without the registry.

The text line is its projection. Class, advice and parent travel with the code, so
a reader that does not know an organisation's code still knows what to do.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

import msgspec

from demur.codes.default import default_registry
from demur.codes.line import parse_refusal, build_refusal_line
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope, Severity, Surface
from demur.errors import InputError, InputTypeError
from demur.model.refusal_source import RefusalSource

__all__ = ["MAX_DETAIL_LENGTH", "Refusal"]

MAX_DETAIL_LENGTH = 2000


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """One refusal with its reason, class and advice. Build one with `Refusal.from_code`."""

    code: str
    refusal_class: RefusalClass | None
    advice: Advice | None
    retry_scope: RetryScope | None
    severity: Severity
    decided: bool
    registry: str
    parent: str | None = None
    detail: str = ""
    evidence: Mapping[str, Any] = {}
    surface: Surface | None = None
    source: RefusalSource | None = None
    decision_id: str | None = None
    schema_version: Literal["refusal.v1"] = "refusal.v1"
    line: str = ""

    def __post_init__(self) -> None:
        expected = build_refusal_line(self.code, self.detail)
        if not self.line:
            msgspec.structs.force_setattr(self, "line", expected)
        elif self.line != expected:
            raise InputError(
                "the line of a refusal does not match its code and detail",
                help="leave `line` out; it follows from them",
            )
        if len(self.detail) > MAX_DETAIL_LENGTH:
            raise InputError(
                f"a detail has at most {MAX_DETAIL_LENGTH} characters, not {len(self.detail)}",
                help="`Refusal.from_code` cuts it and says so",
            )

    @classmethod
    def from_code(
        cls,
        code: str,
        detail: str = "",
        *,
        evidence: Mapping[str, Any] | None = None,
        surface: Surface | str | None = None,
        source: RefusalSource | str | None = None,
        decision_id: str | None = None,
        registry: Registry | None = None,
    ) -> Self:
        """Return the refusal for a registered `code`, its facts filled in from the registry.

        A detail that is too long is cut, and ends in how much was left out. A `source`
        given as text is its name.

        Raises:
            UnknownCodeError: The code is not registered.
        """
        known = default_registry() if registry is None else registry
        entry = known[code]
        if not isinstance(detail, str):
            raise InputTypeError.wrong_type("a detail", "a string", detail)
        short = clip_detail(detail)
        return cls(
            code=str(entry.code),
            refusal_class=entry.refusal_class,
            advice=entry.advice,
            retry_scope=entry.retry_scope,
            severity=entry.severity,
            decided=entry.decided,
            registry=known.label,
            parent=entry.parent,
            detail=short,
            evidence=_to_json_evidence(evidence),
            surface=None if surface is None else _parse_surface(surface),
            source=RefusalSource(name=source) if isinstance(source, str) else source,
            decision_id=decision_id,
        )

    @classmethod
    def from_line(cls, text: str, *, registry: Registry | None = None) -> Self | None:
        """Return the refusal that `text` carries, or None if it is no refusal line."""
        parsed = parse_refusal(text, registry=registry)
        return None if parsed is None else cls.from_code(*parsed, registry=registry)

    def __str__(self) -> str:
        return self.line


def clip_detail(detail: str) -> str:
    """Return `detail` encodable and cut to its limit, with a note of how much was left out."""
    detail = detail.encode("utf-8", "replace").decode("utf-8")
    if len(detail) <= MAX_DETAIL_LENGTH:
        return detail
    kept = MAX_DETAIL_LENGTH - len(f"… [{len(detail)} more characters]")
    return f"{detail[:kept]}… [{len(detail) - kept} more characters]"


def _to_json_evidence(evidence: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the evidence as plain JSON values, so that the refusal can be sent."""
    if evidence is None:
        return {}
    if not isinstance(evidence, Mapping):
        raise InputTypeError.wrong_type("evidence", "a mapping", evidence)
    try:
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(evidence)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"evidence must be plain JSON values: {error}") from error
    return plain


def _parse_surface(name: str) -> Surface:
    try:
        return Surface(name)
    except ValueError:
        known = ", ".join(Surface)
        raise InputError(f"unknown surface `{name}`", help=f"one of {known}") from None

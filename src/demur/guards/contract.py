"""What a guard promises, as checks: its shape once, and each finding it yields.

The pipeline holds every guard to this while it runs, and `demur.testing` before it is shipped.
"""

import inspect
from collections.abc import Iterator
from typing import Any

from demur.canonical import canonicalise
from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, Surface
from demur.errors import InputError
from demur.model.finding import Action, Finding, Span

__all__ = [
    "MAX_DETAIL_LENGTH",
    "MAX_EVIDENCE_BYTES",
    "finding_problem",
    "guard_problems",
    "event_text",
]

MAX_DETAIL_LENGTH = 120
MAX_EVIDENCE_BYTES = 65_536


def guard_problems(guard: object, registry: Registry) -> Iterator[str]:
    """Yield what breaks the contract of a guard in `guard`."""
    surface = getattr(guard, "SURFACE", None)
    if surface is None:
        yield "it has no `SURFACE`"
    elif surface not in list(Surface):
        yield f"`SURFACE` is `{str(surface)[:40]}`, which is no surface"
    codes = getattr(guard, "CODES", None)
    if not isinstance(codes, tuple) or not codes:
        yield "`CODES` must be a tuple of reason codes"
    else:
        yield from filter(None, (_code_problem(code, registry) for code in codes))
    check = getattr(guard, "check", None)
    if not callable(check):
        yield "it has no function `check(event, config)`"
    elif not _takes_two(check):
        yield "`check` must take an event and a config"


def _code_problem(code: object, registry: Registry) -> str | None:
    entry = registry.get(code) if isinstance(code, str) else None
    if entry is None:
        return f"`{str(code)[:80]}` in `CODES` is not registered"
    if entry.effect is not Effect.REFUSE:
        return f"`{entry.code}` in `CODES` refuses nothing"
    return None


def _takes_two(check: Any) -> bool:
    try:
        inspect.signature(check).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        # A function in C may have no signature.
        return True
    return True


def finding_problem(
    finding: object, *, surface: str, codes: tuple[str, ...], text: str | None, registry: Registry
) -> str | None:
    """Return what is wrong with a finding, or None if a guard of these codes may yield it.

    `text` is what spans point into, where the event has one text.
    """
    if not isinstance(finding, Finding):
        return f"a `{type(finding).__name__}` is no finding"
    found = (
        _finding_code_problem(finding.code, codes, registry),
        _finding_field_problem(finding, surface),
        _span_problem(finding.span, text),
        _evidence_problem(finding),
    )
    return next(filter(None, found), None)


def _finding_code_problem(code: object, codes: tuple[str, ...], registry: Registry) -> str | None:
    if not isinstance(code, str) or code not in registry:
        return f"the code `{str(code)[:80]}` is not registered"
    return None if code in codes else f"the code `{code}` is not one of its `CODES`"


def _finding_field_problem(finding: Finding, surface: str) -> str | None:
    detail: object = finding.detail
    if finding.surface != surface:
        return f"the surface is `{str(finding.surface)[:40]}`, not `{surface}`"
    if finding.action not in list(Action):
        return f"the action is `{str(finding.action)[:40]}`"
    if not isinstance(detail, str) or len(detail) > MAX_DETAIL_LENGTH:
        return f"the detail must be a text of at most {MAX_DETAIL_LENGTH} characters"
    return None


def _span_problem(span: object, text: str | None) -> str | None:
    if span is None:
        return None
    if not isinstance(span, Span):
        return f"a `{type(span).__name__}` is no span"
    if text is not None and span.end > len(text):
        return f"the span ends at {span.end}, and the text at {len(text)}"
    return None


def _evidence_problem(finding: Finding) -> str | None:
    try:
        plain = canonicalise(finding.evidence)
    except InputError as error:
        return f"the evidence is not plain JSON: {error.problem}"
    if not isinstance(plain.value, dict):
        return "the evidence must be a mapping"
    too_much = len(plain.raw) > MAX_EVIDENCE_BYTES
    return f"the evidence takes more than {MAX_EVIDENCE_BYTES} bytes" if too_much else None


def event_text(event: object) -> str | None:
    """Return the text that spans of an event's findings point into, where there is one."""
    if isinstance(event, str):
        return event
    text = getattr(event, "text", None)
    return text if isinstance(text, str) else None

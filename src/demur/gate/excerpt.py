"""Excerpts: what was said at a check, cut and redacted for the sealed part of its record.

Only an operator turns them on. An excerpt lies in the sealed part and nowhere else, so erasure and
retention remove it with the rest.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from demur.codes.vocabulary import Surface
from demur.gate.redaction import (
    REMOVED,
    RedactedRequest,
    RedactionProfile,
    blot_secrets,
    scrub_texts,
)
from demur.model.finding import Action, Finding, Span
from demur.model.record import Excerpt, Speaker

# `findings` keeps what was said where a guard found something, `all` at each decided check.
ExcerptMode = Literal["off", "findings", "all"]
MAX_EXCERPT_LENGTH = 500
# A credential is shorter, so that none is cut in half before it is recognised.
_SEARCHED_AROUND = 20_000


class Utterance(NamedTuple):
    """The text of a check, and its speaker.

    `source` names the tool or the document. `prompt` is what an answer answers. `is_changed` says
    that the text is not the one that the findings are about.
    """

    text: str
    speaker: Speaker
    surface: Surface
    source: str = ""
    prompt: str = ""
    is_changed: bool = False


def make_excerpt(
    utterance: Utterance,
    findings: Iterable[Finding],
    profile: RedactionProfile,
    redacted: RedactedRequest,
) -> Excerpt | None:
    """Return the part of a text around the first finding, without secrets; None if none is left.

    `redacted` is the redacted request; the excerpt loses the same details.
    """
    if not redacted.details:
        return None
    found = None if utterance.is_changed else _find_span(utterance, findings)
    part = _cut_text(utterance.text, found, profile, redacted.texts)
    if not part.text.strip() or part.text == REMOVED:
        return None
    return Excerpt(
        text=part.text,
        speaker=utterance.speaker,
        surface=utterance.surface,
        source=_cut_text(utterance.source, None, profile, redacted.texts).text,
        prompt=_cut_text(utterance.prompt, None, profile, redacted.texts).text,
        span=part.span,
        is_cut=part.is_cut,
    )


class _TextPart(NamedTuple):
    text: str
    span: Span | None
    is_cut: bool


def _find_span(utterance: Utterance, findings: Iterable[Finding]) -> Span | None:
    """Return the place of the first finding in the text, those that block before warnings."""
    placed = [
        finding
        for finding in findings
        if finding.surface == utterance.surface
        and finding.span is not None
        and finding.span.start < finding.span.end <= len(utterance.text)
    ]
    return min(placed, key=lambda one: one.action is Action.WARN).span if placed else None


def _cut_text(
    text: str, found: Span | None, profile: RedactionProfile, removed: frozenset[str]
) -> _TextPart:
    """Return the part of a text around a place, redacted, and the place in it if it stayed."""
    start, end = (0, 0) if found is None else (found.start, found.end)
    # A removed text may be of any length, so it is looked for in the whole.
    first = 0 if removed else max(0, start - _SEARCHED_AROUND)
    window = text[first : None if removed else end + _SEARCHED_AROUND]
    clean = _redact_text(window, profile, removed)
    if clean == window:
        start, end = start - first, end - first
    else:
        found = None
        start = end = min(len(_redact_text(window[: start - first], profile, removed)), len(clean))
    # INVARIANT: an excerpt is redacted before it is cut, and never longer than the limit.
    margin = max(0, MAX_EXCERPT_LENGTH - (end - start)) // 2
    begin = max(0, min(start - margin, len(clean) - MAX_EXCERPT_LENGTH))
    kept = clean[begin : begin + MAX_EXCERPT_LENGTH]
    is_cut = len(kept) < len(clean) or len(window) < len(text)
    fits = found is not None and end - begin <= len(kept)
    return _TextPart(kept, Span(start=start - begin, end=end - begin) if fits else None, is_cut)


def _redact_text(text: str, profile: RedactionProfile, removed: frozenset[str]) -> str:
    """Return a text without secrets, as it can be stored."""
    clean: str = scrub_texts(text, removed)
    if profile.secret_keys:
        clean = blot_secrets(clean)
    # Databases store neither halves of a character nor NUL.
    return clean.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")

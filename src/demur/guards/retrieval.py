"""The retrieval guard: orders in text retrieved for the model.

Codes: CONTEXT_INJECTION, EXFILTRATION_RISK. It runs the check of `demur.guards.tool_result`:
pages, documents and passages are data, whoever wrote them. Limits: as there; an order that is
spread over several passages is not seen.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from demur.codes.vocabulary import Surface
from demur.guards.text_rules import RuleSet
from demur.guards.tool_result import (
    RETURNED_CODES,
    FindingsChoice,
    check_returned_text,
    mark_quotable,
)
from demur.model.finding import Finding

SURFACE = Surface.RETRIEVAL
CODES = RETURNED_CODES


class RetrievedPassage(NamedTuple):
    """A retrieved text, and its source, where known."""

    text: str
    source: str = "document"


class RetrievalConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the retrieval guard.

    `rules` replaces the built-in ones. `findings` is as for tool results: withhold or quote.
    """

    rules: RuleSet | None = None
    findings: FindingsChoice = "withhold"


_DEFAULT = RetrievalConfig()


def check(event: RetrievedPassage, config: RetrievalConfig = _DEFAULT) -> Iterator[Finding]:
    """Yield the findings in a passage, in the order of spans."""
    held = check_returned_text(event.text, event.source, config.rules, SURFACE)
    yield from mark_quotable(held, config.findings)

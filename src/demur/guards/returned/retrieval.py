"""Find orders in what was retrieved for the model. Codes: CONTEXT_INJECTION, EXFILTRATION_RISK.

The same look as at a tool's result: pages, documents and passages are data, whoever wrote
them. Limits: as in `returned_text`; what several passages say together is not seen.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from demur.codes.vocabulary import Surface
from demur.guards.returned.returned_text import RETURNED_CODES, check_returned
from demur.guards.text_rules.rule import RuleSet
from demur.model.finding import Finding

__all__ = ["CODES", "SURFACE", "Passage", "RetrievalConfig", "check"]

SURFACE = Surface.RETRIEVAL
CODES = RETURNED_CODES


class Passage(NamedTuple):
    """A retrieved text, and where it came from, where that is known."""

    text: str
    source: str = "document"


class RetrievalConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for in passages. `rules`: others than the built-in ones."""

    rules: RuleSet | None = None


_DEFAULT = RetrievalConfig()


def check(event: Passage, config: RetrievalConfig = _DEFAULT) -> Iterator[Finding]:
    """Yield what is to be seen in a passage, in the order of spans."""
    yield from check_returned(event.text, event.source, config.rules, SURFACE)

"""A reason code: the rules for its name, and everything its registry entry says.

A code is stable and says why. Numbers, levels and sentences belong in the evidence and the
detail. Registries and `demur codes lint` check names by the same rules.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from demur.codes.vocabulary import (
    Advice,
    Effect,
    GrantKind,
    Obligation,
    RefusalClass,
    RetryScope,
    Severity,
    Stability,
    Surface,
)

_LOCAL = re.compile(r"[A-Z][A-Z0-9_]*[A-Z0-9]\Z")
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+\Z")
_NUMBER = re.compile(r"\d+(?:USD|EUR|GBP|PCT|PERCENT)?\Z")
_MAX_LOCAL = 63
_MAX_DOMAIN = 253

_MEASURES = frozenset(
    {
        "HIGH",
        "MEDIUM",
        "LOW",
        "CRITICAL",
        "ELEVATED",
        "MODERATE",
        "SEVERE",
        "RISK",
        "CONFIDENCE",
        "SCORE",
        "LEVEL",
        "SEVERITY",
        "PROBABILITY",
        "THREAT",
        "PRIORITY",
    }
)


class NameProblem(StrEnum):
    """Why a name cannot be a reason code, in words."""

    SYNTAX = "a code is `[A-Z][A-Z0-9_]*[A-Z0-9]`, at most 63 characters, after `domain/` if any"
    PROSE = "natural language is not a code"
    NUMBER = "a number in a code makes one code per value"
    MEASURE = "a measurement is not a reason"


def is_domain(text: str) -> bool:
    """Return whether `text` is a domain of codes: a lower-case DNS name, or `x-local`."""
    return text == "x-local" or (len(text) <= _MAX_DOMAIN and _DOMAIN.match(text) is not None)


def is_code(text: str) -> bool:
    """Return whether `text` has the form `CODE` or `domain/CODE`."""
    domain, slash, local = text.rpartition("/")
    if slash and not is_domain(domain):
        return False
    return len(local) <= _MAX_LOCAL and _LOCAL.match(local) is not None


def local_name(code: str) -> str:
    """Return the code without its domain."""
    return code.rpartition("/")[2]


def name_problem(code: str) -> NameProblem | None:
    """Return why `code` cannot be a reason code, or None if its name is sound."""
    if not is_code(code):
        return NameProblem.PROSE if " " in code.strip() else NameProblem.SYNTAX
    words = [word for word in local_name(code).split("_") if word]
    if any(_NUMBER.match(word) for word in words):
        return NameProblem.NUMBER
    # INVARIANT: a name made of measure words alone is never a code, whatever their order.
    if _MEASURES.issuperset(words):
        return NameProblem.MEASURE
    return None


class Examples(NamedTuple):
    """Texts that show the code: rows to refuse, and their harmless twins to allow."""

    refuse: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


class Entry(NamedTuple):
    """A registered reason code.

    `spec/schemas/reason_codes.v1.schema.json` says what each field means.
    """

    code: str
    family: str
    title: str
    description: str
    effect: Effect
    refusal_class: RefusalClass | None
    severity: Severity
    advice: Advice | None
    retry_scope: RetryScope | None
    decided: bool
    parent: str | None
    grants: tuple[GrantKind, ...]
    obligations: tuple[Obligation, ...]
    surfaces: tuple[Surface, ...]
    http: int
    since: str
    stability: Stability
    deprecated: bool
    deprecated_since: str | None
    replacement: str | None
    aliases: tuple[str, ...]
    evidence: Mapping[str, str]
    xref: Mapping[str, tuple[str, ...]]
    examples: Examples

    @property
    def local_name(self) -> str:
        """The code without the organisation's domain."""
        return local_name(self.code)

    @property
    def summary(self) -> str:
        """The first sentence of the description; the rest tells similar codes apart."""
        first, stop, _ = self.description.partition(". ")
        return first + stop.rstrip()

    def as_json(self) -> dict[str, object]:
        """Return the entry as plain JSON values, in the order of the registry file."""
        raw: dict[str, object] = self._asdict()
        for field in ("grants", "obligations", "surfaces", "aliases"):
            raw[field] = list(getattr(self, field))
        raw["evidence"] = dict(self.evidence)
        raw["xref"] = {taxonomy: list(ids) for taxonomy, ids in self.xref.items()}
        raw["examples"] = {"refuse": list(self.examples.refuse), "allow": list(self.examples.allow)}
        return raw

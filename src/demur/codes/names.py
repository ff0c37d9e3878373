"""The syntax of a code name, and what makes a well-formed name a bad one.

A code is stable and says why; numbers, levels and sentences belong into
evidence and words. The same judgement serves registries and `demur codes lint`.
"""

import re
from enum import StrEnum

__all__ = ["NameProblem", "is_code", "is_domain", "local_name", "name_problem"]

_LOCAL = re.compile(r"[A-Z][A-Z0-9_]*[A-Z0-9]\Z")
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+\Z")
_NUMBER = re.compile(r"\d+(?:USD|EUR|GBP|PCT|PERCENT)?\Z")
_MAX_LOCAL = 63
_MAX_DOMAIN = 253

_MEASURES = frozenset(
    {
        *("HIGH", "MEDIUM", "LOW", "CRITICAL", "ELEVATED", "MODERATE", "SEVERE"),
        *("RISK", "CONFIDENCE", "SCORE", "LEVEL", "SEVERITY", "PROBABILITY", "THREAT", "PRIORITY"),
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

"""Limits that fail a run: `RCE_RISK>0`, `unknown>0`, `RATE_LIMIT>10%`."""

import re
from typing import NamedTuple

from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass
from demur.errors import InputError
from demur.source.suggest import did_you_mean
from demur.triage.counts import CANONICAL, KINDS, LEGACY, RefusalCounts

__all__ = ["TriageLimit"]

_LIMIT_PATTERN = re.compile(
    r"\s*(?P<name>[\w./-]+)\s*(?P<sign>>=?)\s*(?P<limit>\d+(?:\.\d+)?)\s*(?P<per>%?)\s*"
)
_TOTAL_NAME = "total"


class TriageLimit(NamedTuple):
    """A limit for the number of some refusals, or for their share of all refusals."""

    name: str
    at_least: bool
    limit: float
    share: bool

    @classmethod
    def parse(cls, text: str, registry: Registry) -> "TriageLimit":
        """Return the limit written in a text.

        Raises:
            InputError: It is not a limit, or names no known code, class or kind.
        """
        found = _LIMIT_PATTERN.fullmatch(text)
        if found is None:
            help_text = (
                "write one like `RCE_RISK>0`, `unknown>0`, `HARD_BLOCK>=5` or `RATE_LIMIT>10%`"
            )
            raise InputError(f"`{text}` is not a limit", help=help_text)
        name = found["name"]
        named = {*KINDS, _TOTAL_NAME, *RefusalClass}
        if name not in named and name not in registry:
            known = [*(entry.code for entry in registry), *named]
            raise InputError(
                f"`{name}` is neither a code nor a class nor one of {', '.join((*KINDS, _TOTAL_NAME))}",
                help=did_you_mean(name, known),
            )
        return cls(name, found["sign"] == ">=", float(found["limit"]), bool(found["per"]))

    def measured_value(self, counts: RefusalCounts, registry: Registry) -> float:
        """Return the value to compare with the limit: a number, or a share in percent.

        The share is of the refusals of known codes, and 0 if there are none.
        """
        number = sum(
            count
            for key, count in counts.rows.items()
            if self._matches(key.code, key.kind, registry)
        )
        if not self.share:
            return number
        total = counts.count_kinds()
        return 100 * number / total if total else 0.0

    def is_exceeded(self, counts: RefusalCounts, registry: Registry) -> bool:
        """Return whether the counts exceed the limit."""
        value = self.measured_value(counts, registry)
        return value >= self.limit if self.at_least else value > self.limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else ">"
        return f"{self.name}{sign}{self.limit:g}{'%' if self.share else ''}"

    def _matches(self, code: str, kind: str, registry: Registry) -> bool:
        if self.name in KINDS:
            return kind == self.name
        if kind not in {CANONICAL, LEGACY}:
            return False
        entry = registry.get(code)
        refusal_class = None if entry is None else entry.refusal_class
        return self.name in {_TOTAL_NAME, code, refusal_class}

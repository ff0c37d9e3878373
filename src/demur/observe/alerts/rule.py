"""An alert rule: what is counted, over which time, and from which number on it is too much."""

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from demur.codes.vocabulary import Severity

__all__ = ["AlertRule", "AlertRules", "Field", "Kind", "Selector", "Whole"]


class Kind(StrEnum):
    """What a rule looks at."""

    COUNT = "count"
    SHARE = "share"
    RATE_CHANGE = "rate_change"
    NEW_UNKNOWN_CODE = "new_unknown_code"


class Field(StrEnum):
    """By what decisions are chosen."""

    CODE = "code"
    CLASS = "class"
    VERDICT = "verdict"
    OUTPUT = "output"


class Whole(StrEnum):
    """What a share is a share of."""

    DECISIONS = "decisions"
    REFUSALS = "refusals"


class Selector(NamedTuple):
    """Which decisions a rule counts."""

    field: Field
    value: str


class AlertRule(NamedTuple):
    """One rule.

    `threshold` is a number of decisions for `count`, a percentage for `share`, a factor for
    `rate_change`. `before` is the time that a window is compared with. `minimum` keeps few
    decisions from meaning much. `hold` is how long it must be so, `cooldown` how long nobody
    is told again.
    """

    id: str
    kind: Kind
    severity: Severity
    window: timedelta
    description: str
    threshold: float = 0
    selector: Selector | None = None
    whole: Whole = Whole.DECISIONS
    before: timedelta = timedelta()
    minimum: int = 0
    hold: timedelta = timedelta()
    cooldown: timedelta = timedelta()
    runbook: str = ""
    where: str = ""

    @property
    def limit(self) -> str:
        """The threshold as people and machines write it, every digit of it."""
        whole = self.threshold == int(self.threshold)
        return str(int(self.threshold)) if whole else repr(self.threshold)


class AlertRules(NamedTuple):
    """The rules of a file."""

    rules: tuple[AlertRule, ...]
    where: str

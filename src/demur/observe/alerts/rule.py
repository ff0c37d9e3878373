"""An alert rule: what is counted, over which time, and from which number on it is too much."""

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from demur.codes.vocabulary import Severity

__all__ = [
    "AlertRule",
    "AlertRules",
    "SelectorField",
    "AlertKind",
    "DecisionSelector",
    "ShareWhole",
]


class AlertKind(StrEnum):
    """The kind of measurement of a rule."""

    COUNT = "count"
    SHARE = "share"
    RATE_CHANGE = "rate_change"
    NEW_UNKNOWN_CODE = "new_unknown_code"


class SelectorField(StrEnum):
    """The field by which decisions are selected."""

    CODE = "code"
    CLASS = "class"
    VERDICT = "verdict"
    OUTPUT = "output"


class ShareWhole(StrEnum):
    """The whole of a share."""

    DECISIONS = "decisions"
    REFUSALS = "refusals"


class DecisionSelector(NamedTuple):
    """The decisions that a rule counts."""

    field: SelectorField
    value: str


class AlertRule(NamedTuple):
    """One rule.

    `threshold` is a number of decisions for `count`, a percentage for `share`, a factor for
    `rate_change`. `before` is the period that a window is compared with. `minimum` is the number
    of decisions below which a rule stays quiet. `hold` is how long the condition must last, and
    `cooldown` how long the alert is not repeated.
    """

    id: str
    kind: AlertKind
    severity: Severity
    window: timedelta
    description: str
    threshold: float = 0
    selector: DecisionSelector | None = None
    whole: ShareWhole = ShareWhole.DECISIONS
    before: timedelta = timedelta()
    minimum: int = 0
    hold: timedelta = timedelta()
    cooldown: timedelta = timedelta()
    runbook: str = ""
    where: str = ""

    @property
    def limit_text(self) -> str:
        """The threshold as text with all its digits."""
        whole = self.threshold == int(self.threshold)
        return str(int(self.threshold)) if whole else repr(self.threshold)


class AlertRules(NamedTuple):
    """The rules of a file."""

    rules: tuple[AlertRule, ...]
    where: str

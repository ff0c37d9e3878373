"""Alert rules: what is counted, over which period, and above which number it is too much.

Loading reports every problem at once, each with its place and help. Periods are written as in
Prometheus: `5m`, `1h`, `7d`.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import DecisionOutput, Effect, RefusalClass, Severity, Verdict
from demur.errors import ManyProblemsError
from demur.source.item import SourceItem, did_you_mean
from demur.source.reading import read_source, read_text
from demur.source.schema import load_schema


class AlertKind(StrEnum):
    """The kind of measurement of a rule."""

    COUNT = "count"
    SHARE = "share"
    RATE_CHANGE = "rate_change"
    NEW_UNKNOWN_CODE = "new_unknown_code"


class SelectorField(StrEnum):
    """The field by which decisions are selected."""

    CODE = "code"
    PARENT = "parent"
    FAMILY = "family"
    CLASS = "class"
    VERDICT = "verdict"
    OUTPUT = "output"


class ShareWhole(StrEnum):
    """The whole of a share."""

    DECISIONS = "decisions"
    REFUSALS = "refusals"


class DecisionSelector(NamedTuple):
    """The decisions that a rule counts.

    For a parent or a family, `codes` are the codes that it stands for. A decision with two of
    them counts twice, as it has two reasons.
    """

    field: SelectorField
    value: str
    codes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The selector in a few words."""
        if self.field is SelectorField.PARENT:
            return f"{self.value} and below"
        return f"family {self.value}" if self.field is SelectorField.FAMILY else self.value


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


_UNIT_SECONDS = {"m": 60, "h": 3600, "d": 86400}
_UNIT_NAMES = {"m": "minute", "h": "hour", "d": "day"}
MAX_PERIOD = timedelta(days=366)


def parse_rule_period(text: object) -> timedelta | None:
    """Return a period like `5m`, `8h` or `7d`, up to 366 days; None for anything else."""
    if not isinstance(text, str) or text[-1:] not in _UNIT_SECONDS:
        return None
    number = text[:-1]
    if not (number.isascii() and number.isdecimal()) or len(number) > 6:
        return None
    period = timedelta(seconds=int(number) * _UNIT_SECONDS[text[-1]])
    return period if timedelta() < period <= MAX_PERIOD else None


def format_period(period: timedelta) -> str:
    """Return a period in the notation of rules."""
    number, unit = _largest_unit(period)
    return f"{number}{unit}"


def describe_period(period: timedelta) -> str:
    """Return a period in words: `hour`, `5 minutes`."""
    number, unit = _largest_unit(period)
    return _UNIT_NAMES[unit] if number == 1 else f"{number} {_UNIT_NAMES[unit]}s"


def _largest_unit(period: timedelta) -> tuple[int, str]:
    """Return a period in the largest unit that divides it."""
    seconds = int(period.total_seconds())
    unit = next(unit for unit in ("d", "h", "m") if seconds % _UNIT_SECONDS[unit] == 0)
    return seconds // _UNIT_SECONDS[unit], unit


SCHEMA_VERSION = "alert_rules.v1"
ALERTS_SCHEMA = load_schema(__file__, SCHEMA_VERSION)

_THRESHOLDS = {"count": "over", "share": "over_percent", "rate_change": "factor"}
_FIELD_WORDS: dict[SelectorField, type[StrEnum]] = {
    SelectorField.CLASS: RefusalClass,
    SelectorField.VERDICT: Verdict,
    SelectorField.OUTPUT: DecisionOutput,
}
_RULE_ID = re.compile(r"[A-Z][A-Z0-9_]*[A-Z0-9]\Z")
_MAX_LINE_LENGTH, _MAX_COUNT = 300, 10**9
_NO_PERIOD = timedelta()


class AlertRuleError(ManyProblemsError):
    """A file of alert rules that cannot be used."""


def load_rules(path: Path | str, *, registry: Registry | None = None) -> AlertRules:
    """Return the rules in the file at `path`.

    Raises:
        AlertRuleError: demur cannot read the file, or it is invalid; carries every problem.
    """
    return parse_rules(read_text(path, "alert rules", AlertRuleError), str(path), registry=registry)


def parse_rules(text: str, name: str = "alerts", *, registry: Registry | None = None) -> AlertRules:
    """Return the rules written in `text`, called `name` in errors.

    Raises:
        AlertRuleError: The rules are invalid; carries every problem.
    """
    source = read_source(name, text, AlertRuleError)
    rules = tuple(_read_rules(source, default_registry() if registry is None else registry))
    source.raise_problems(AlertRuleError)
    return AlertRules(rules, name)


@cache
def builtin_rules() -> AlertRules:
    """Return the rules that demur ships, which suit any policy."""
    text = (files("demur.observe.alerts") / "default_rules.yaml").read_text(encoding="utf-8")
    return parse_rules(text, "built-in rules", registry=Registry.load())


def _read_rules(source: SourceItem, registry: Registry) -> Iterator[AlertRule]:
    """Yield the rules; they are valid only if no problem was reported."""
    source.as_fields(ALERTS_SCHEMA["properties"], "a file of alert rules")
    source.check_version(SCHEMA_VERSION)
    source.optional_text("description")
    listed = source.require_item("rules")
    if listed is not None and listed.value == []:
        listed.report("`rules` is a list of rules")
    ids: dict[str, str] = {}
    for item in source.list_items("rules"):
        rule = _read_rule(item, registry)
        if rule is not None:
            item.report_duplicate(rule.id, "rule", ids)
            yield rule


def _read_rule(item: SourceItem, registry: Registry) -> AlertRule | None:
    if not isinstance(item.value, dict):
        item.report("a rule is a mapping")
        return None
    kind = item.require_word("kind", AlertKind)
    if kind is None:
        return None
    item.as_fields(ALERTS_SCHEMA["$defs"][kind]["properties"], f"a rule of kind `{kind}`")
    window = _read_period(item, "window", needed=True)
    choosing = kind is not AlertKind.NEW_UNKNOWN_CODE
    name = item.require_text("id")
    if name and not _RULE_ID.match(name):
        item.value["id"].report(f"`{name}` is not a valid rule id", "write one like `STORAGE_LOST`")
    return AlertRule(
        id=name,
        kind=kind,
        severity=item.require_word("severity", Severity) or Severity.HIGH,
        window=window,
        description=_read_line(item, "description"),
        threshold=_read_threshold(kind, item),
        selector=_read_selector(item, registry) if choosing else None,
        whole=item.word_or_default("of", ShareWhole.DECISIONS),
        before=_read_period(item, "before") or window,
        minimum=_read_minimum(item),
        hold=_read_period(item, "for"),
        cooldown=_read_period(item, "cooldown"),
        runbook=_read_line(item, "runbook") if item.get("runbook") is not None else "",
        where=item.where,
    )


def _read_line(rule: SourceItem, key: str) -> str:
    text = rule.require_text(key)
    if len(text) > _MAX_LINE_LENGTH or not text.isprintable():
        rule.value[key].report(f"`{key}` is one line of at most {_MAX_LINE_LENGTH} characters")
    return text


def _read_selector(rule: SourceItem, registry: Registry) -> DecisionSelector | None:
    named = [field for field in SelectorField if rule.get(field) is not None]
    if len(named) != 1:
        problem = "the rule has several selectors" if named else "the rule has no selector"
        rule.report(problem, f"use one of {', '.join(SelectorField)}")
        return None
    field = named[0]
    if field in {SelectorField.CODE, SelectorField.PARENT}:
        code = rule.require_text(field)
        entry = rule.value[field].look_up(registry.__getitem__) if code else None
        if entry is not None and entry.effect is not Effect.REFUSE:
            rule.value[field].report(f"`{code}` refuses nothing")
        below = registry.descendants(code) if field is SelectorField.PARENT else ()
        return DecisionSelector(field, code, below)
    if field is SelectorField.FAMILY:
        return _read_family(rule, registry)
    word = rule.require_word(field, _FIELD_WORDS[field])
    return None if word is None else DecisionSelector(field, str(word))


def _read_family(rule: SourceItem, registry: Registry) -> DecisionSelector:
    family = rule.require_text(SelectorField.FAMILY)
    refusing = [entry for entry in registry if entry.effect is Effect.REFUSE]
    known = sorted({entry.family for entry in refusing})
    if family and family not in known:
        help_text = did_you_mean(family, known) or f"one of {', '.join(known)}"
        rule.value["family"].report(f"unknown family `{family}`", help_text)
    codes = tuple(str(entry.code) for entry in refusing if entry.family == family)
    return DecisionSelector(SelectorField.FAMILY, family, codes)


def _read_period(rule: SourceItem, key: str, *, needed: bool = False) -> timedelta:
    item = rule.require_item(key, "like 5m, 1h or 7d") if needed else rule.get(key)
    if item is None:
        return _NO_PERIOD
    period = parse_rule_period(item.value)
    if period is None:
        item.report(f"`{item.plain_value}` is not a period", "like 5m, 1h or 7d, at most 366d")
    return period or _NO_PERIOD


def _read_threshold(kind: AlertKind, rule: SourceItem) -> float:
    key = _THRESHOLDS.get(kind)
    item = None if key is None else rule.require_item(key)
    if item is None:
        return 0
    problem = _number_problem(kind, item)
    if problem is not None:
        item.report(f"`{key}` is {problem}, not `{item.plain_value}`")
        return 0
    return float(item.value)


def _read_minimum(rule: SourceItem) -> int:
    item = rule.get("minimum")
    if item is None:
        return 1
    if item.integer is None or item.integer < 1:
        item.report(f"`minimum` is a whole number above 0, not `{item.plain_value}`")
        return 1
    return item.integer


def _number_problem(kind: AlertKind, item: SourceItem) -> str | None:
    """Return the expected form of a threshold, or None if it is valid."""
    number = -1 if item.number is None else item.number
    if kind is AlertKind.COUNT:
        fits = isinstance(number, int) and 0 <= number <= _MAX_COUNT
        return None if fits else f"a whole number from 0 to {_MAX_COUNT}"
    if kind is AlertKind.SHARE:
        return None if 0 <= number < 100 else "a percentage from 0 to less than 100"
    return None if 1 < number <= 1000 else "a factor above 1, at most 1000"

"""Load alert rules: every problem at once, each with its place and help."""

import re
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path

from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import DecisionOutput, Effect, RefusalClass, Severity, Verdict
from demur.errors import ManyProblemsError
from demur.observe.alerts.periods import parse_period
from demur.observe.alerts.rule import AlertRule, AlertRules, Field, Kind, Selector, Whole
from demur.source.item import Item
from demur.source.reading import read_source, read_text

__all__ = ["SCHEMA_VERSION", "AlertRuleError", "builtin_rules", "load_rules", "parse_rules"]

SCHEMA_VERSION = "alert_rules.v1"

_TOP = ("schema_version", "description", "rules")
_COMMON = ("id", "kind", "window", "severity", "for", "cooldown", "description", "runbook")
_THRESHOLD = {Kind.COUNT: "over", Kind.SHARE: "over_percent", Kind.RATE_CHANGE: "factor"}
# The fields of each kind of rule beyond the common ones.
_OWN: dict[Kind, tuple[str, ...]] = {
    Kind.COUNT: (*Field, "over"),
    Kind.SHARE: (*Field, "over_percent", "of", "minimum"),
    Kind.RATE_CHANGE: (*Field, "factor", "before", "minimum"),
    Kind.NEW_UNKNOWN_CODE: ("before",),
}
_WORDS: dict[Field, type[StrEnum]] = {
    Field.CLASS: RefusalClass,
    Field.VERDICT: Verdict,
    Field.OUTPUT: DecisionOutput,
}
_ID = re.compile(r"[A-Z][A-Z0-9_]*[A-Z0-9]\Z")
_LONGEST_TEXT = 300
_MOST = 10**9
_NOTHING = timedelta()


class AlertRuleError(ManyProblemsError):
    """A file of alert rules that cannot be used."""


def load_rules(path: Path | str, *, registry: Registry | None = None) -> AlertRules:
    """Return the rules in the file at `path`.

    Raises:
        AlertRuleError: The file cannot be read or is invalid; carries every problem.
    """
    text = read_text(path, "alert rules", AlertRuleError)
    return parse_rules(text, str(path), registry=registry)


def parse_rules(text: str, name: str = "alerts", *, registry: Registry | None = None) -> AlertRules:
    """Return the rules written in `text`, called `name` in errors.

    Raises:
        AlertRuleError: The rules are invalid; carries every problem.
    """
    source = read_source(name, text, AlertRuleError)
    rules = tuple(_rules(source, default_registry() if registry is None else registry))
    source.raise_problems(AlertRuleError)
    return AlertRules(rules, name)


@cache
def builtin_rules() -> AlertRules:
    """Return the rules that demur ships, which suit any policy."""
    text = (files("demur.observe.alerts") / "default_rules.yaml").read_text(encoding="utf-8")
    return parse_rules(text, "built-in rules", registry=Registry.load())


def _rules(source: Item, registry: Registry) -> Iterator[AlertRule]:
    """Yield the rules; they are valid only if no problem was reported."""
    source.fields(_TOP, "a file of alert rules")
    source.version(SCHEMA_VERSION)
    source.optional_text("description")
    listed = source.needed("rules")
    if listed is not None and listed.value == []:
        listed.report("`rules` is a list of rules")
    ids: dict[str, str] = {}
    for item in source.items("rules"):
        rule = _rule(item, registry)
        if rule is not None:
            item.once(rule.id, "rule", ids)
            yield rule


def _rule(item: Item, registry: Registry) -> AlertRule | None:
    if not isinstance(item.value, dict):
        item.report("a rule is a mapping")
        return None
    kind = item.word("kind", Kind)
    if kind is None:
        return None
    item.fields((*_COMMON, *_OWN[kind]), f"a rule of kind `{kind}`")
    window = _period(item, "window", needed=True)
    choosing = kind is not Kind.NEW_UNKNOWN_CODE
    return AlertRule(
        id=_id(item),
        kind=kind,
        severity=item.word("severity", Severity) or Severity.HIGH,
        window=window,
        description=_line(item, "description"),
        threshold=_threshold(kind, item),
        selector=_selector(item, registry) if choosing else None,
        whole=item.word_or("of", Whole.DECISIONS),
        before=_period(item, "before") or window,
        minimum=_minimum(item),
        hold=_period(item, "for"),
        cooldown=_period(item, "cooldown"),
        runbook=_line(item, "runbook") if item.get("runbook") is not None else "",
        where=item.where,
    )


def _line(rule: Item, key: str) -> str:
    text = rule.text(key)
    if len(text) > _LONGEST_TEXT or not text.isprintable():
        problem = f"`{key}` is one line of at most {_LONGEST_TEXT} characters"
        rule.value[key].report(problem)
    return text


def _id(rule: Item) -> str:
    name = rule.text("id")
    if name and not _ID.match(name):
        rule.value["id"].report(f"`{name}` is not a valid rule id", "write one like `STORAGE_LOST`")
    return name


def _selector(rule: Item, registry: Registry) -> Selector | None:
    named = [field for field in Field if rule.get(field) is not None]
    if len(named) != 1:
        problem = "the rule has several selectors" if named else "the rule has no selector"
        rule.report(problem, f"use one of {', '.join(Field)}")
        return None
    field = named[0]
    if field is Field.CODE:
        return Selector(field, _code(rule, registry))
    word = rule.word(field, _WORDS[field])
    return None if word is None else Selector(field, str(word))


def _code(rule: Item, registry: Registry) -> str:
    code = rule.text(Field.CODE)
    entry = rule.value["code"].look_up(registry.__getitem__) if code else None
    if entry is not None and entry.effect is not Effect.REFUSE:
        rule.value["code"].report(f"`{code}` refuses nothing")
    return code


def _period(rule: Item, key: str, *, needed: bool = False) -> timedelta:
    item = rule.needed(key, "like 5m, 1h or 7d") if needed else rule.get(key)
    if item is None:
        return _NOTHING
    period = parse_period(item.value)
    if period is None:
        item.report(f"`{item.plain}` is not a period", "like 5m, 1h or 7d, at most 366d")
    return period or _NOTHING


def _threshold(kind: Kind, rule: Item) -> float:
    key = _THRESHOLD.get(kind)
    item = None if key is None else rule.needed(key)
    if item is None:
        return 0
    problem = _number_problem(kind, item)
    if problem is not None:
        item.report(f"`{key}` is {problem}, not `{item.plain}`")
        return 0
    return float(item.value)


def _minimum(rule: Item) -> int:
    item = rule.get("minimum")
    if item is None:
        return 1
    if item.whole is None or item.whole < 1:
        item.report(f"`minimum` is a whole number above 0, not `{item.plain}`")
        return 1
    return item.whole


def _number_problem(kind: Kind, item: Item) -> str | None:
    """Return the expected form of a threshold, or None if it is valid."""
    number = -1 if item.number is None else item.number
    if kind is Kind.COUNT:
        fits = isinstance(number, int) and 0 <= number <= _MOST
        return None if fits else f"a whole number from 0 to {_MOST}"
    if kind is Kind.SHARE:
        return None if 0 <= number < 100 else "a percentage from 0 to less than 100"
    return None if 1 < number <= 1000 else "a factor above 1, at most 1000"

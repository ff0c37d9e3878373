"""Load alert rules: every problem at once, each with its place and help."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.suggest import did_you_mean
from demur.codes.vocabulary import DecisionOutput, Effect, RefusalClass, Severity, Verdict
from demur.errors import ManyProblemsError, Problem
from demur.observe.alerts.periods import parse_period
from demur.observe.alerts.rule import AlertRule, AlertRules, Field, Kind, Selector, Whole
from demur.source import Item, SourceError, read_source, read_text

__all__ = ["SCHEMA_VERSION", "AlertRuleError", "builtin_rules", "load_rules", "parse_rules"]

SCHEMA_VERSION = "alert_rules.v1"

_TOP = ("schema_version", "description", "rules")
_COMMON = ("id", "kind", "window", "severity", "for", "cooldown", "description", "runbook")
_THRESHOLD = {Kind.COUNT: "over", Kind.SHARE: "over_percent", Kind.RATE_CHANGE: "factor"}
# What a rule of each kind may say beyond what all of them say.
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
_Word = TypeVar("_Word", bound=StrEnum)


class AlertRuleError(ManyProblemsError):
    """A file of alert rules that cannot be used."""


def load_rules(path: Path | str, *, registry: Registry | None = None) -> AlertRules:
    """Return the rules in the file at `path`.

    Raises:
        AlertRuleError: The file cannot be read or used; carries every problem.
    """
    try:
        text = read_text(path, "alert rules")
    except SourceError as error:
        raise AlertRuleError.of(error.problems) from error
    return parse_rules(text, str(path), registry=registry)


def parse_rules(text: str, name: str = "alerts", *, registry: Registry | None = None) -> AlertRules:
    """Return the rules written in `text`, called `name` in errors.

    Raises:
        AlertRuleError: They cannot be used; carries every problem.
    """
    loader = _Loader(default_registry() if registry is None else registry)
    try:
        rules = tuple(loader.rules(read_source(name, text)))
    except SourceError as error:
        raise AlertRuleError.of(error.problems) from error
    if loader.problems:
        raise AlertRuleError.of(loader.problems)
    return AlertRules(rules, name)


@cache
def builtin_rules() -> AlertRules:
    """Return the rules that demur ships: what is worth an alert with any policy."""
    text = (files("demur.observe.alerts") / "default_rules.yaml").read_text(encoding="utf-8")
    return parse_rules(text, "built-in rules", registry=Registry.load())


class _Loader:
    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.problems: list[Problem] = []

    def report(self, where: str, problem: str, help_text: str | None = None) -> None:
        self.problems.append(Problem(where, problem, help_text))

    def rules(self, source: Item) -> Iterator[AlertRule]:
        """Yield the rules; worthless if problems were reported on the way."""
        fields = self._fields(source, _TOP, "a file of alert rules")
        version = self._text(fields, "schema_version", source)
        if version and version != SCHEMA_VERSION:
            place = fields["schema_version"].where
            self.report(place, f"unknown schema version `{version}`", f"this is {SCHEMA_VERSION}")
        if "description" in fields:
            self._text(fields, "description", source)
        ids: dict[str, str] = {}
        for item in self._rules(fields, source):
            rule = self._rule(item)
            if rule is not None:
                if rule.id in ids:
                    also = f"also at {ids[rule.id]}"
                    self.report(item.where, f"rule `{rule.id}` stands twice", also)
                ids.setdefault(rule.id, item.where)
                yield rule

    def _rules(self, fields: Mapping[str, Item], source: Item) -> list[Item]:
        listed = fields.get("rules")
        if listed is None:
            self.report(source.where, "`rules` is missing")
        elif not isinstance(listed.value, list) or not listed.value:
            self.report(listed.where, "`rules` is a list of rules")
        else:
            return listed.value
        return []

    def _rule(self, item: Item) -> AlertRule | None:
        if not isinstance(item.value, dict):
            self.report(item.where, "a rule is a mapping")
            return None
        kind = self._word(item.value, "kind", item, Kind)
        if kind is None:
            return None
        fields = self._fields(item, (*_COMMON, *_OWN[kind]), f"a rule of kind `{kind}`")
        window = self._period(fields, "window", item)
        choosing = kind is not Kind.NEW_UNKNOWN_CODE
        return AlertRule(
            id=self._id(fields, item),
            kind=kind,
            severity=self._word(fields, "severity", item, Severity) or Severity.HIGH,
            window=window,
            description=self._line(fields, "description", item),
            threshold=self._threshold(kind, fields, item),
            selector=self._selector(fields, item) if choosing else None,
            whole=self._optional(fields, "of", Whole, Whole.DECISIONS),
            before=self._period(fields, "before", None) or window,
            minimum=self._minimum(fields),
            hold=self._period(fields, "for", None),
            cooldown=self._period(fields, "cooldown", None),
            runbook=self._line(fields, "runbook", item) if "runbook" in fields else "",
            where=item.where,
        )

    def _fields(self, item: Item, known: Iterable[str], what: str) -> Mapping[str, Item]:
        if not isinstance(item.value, dict):
            self.report(item.where, f"{what} is a mapping")
            return {}
        names = [str(name) for name in known]
        for key, where in item.keys.items():
            if key not in names:
                hint = did_you_mean(key, names) or f"{what} has {', '.join(names)}"
                self.report(where, f"unknown key `{key}`", hint)
        return item.value

    def _text(self, fields: Mapping[str, Item], key: str, parent: Item) -> str:
        if key not in fields:
            self.report(parent.where, f"`{key}` is missing")
            return ""
        value = fields[key].value
        if isinstance(value, str) and value.strip():
            return value
        self.report(fields[key].where, f"`{key}` must be a text", "quote it")
        return ""

    def _line(self, fields: Mapping[str, Item], key: str, parent: Item) -> str:
        text = self._text(fields, key, parent)
        if len(text) > _LONGEST_TEXT or not text.isprintable():
            problem = f"`{key}` is one line of at most {_LONGEST_TEXT} characters"
            self.report(fields[key].where, problem)
        return text

    def _id(self, fields: Mapping[str, Item], item: Item) -> str:
        name = self._text(fields, "id", item)
        if name and not _ID.match(name):
            self.report(fields["id"].where, f"`{name}` is no id of a rule", "like `STORAGE_LOST`")
        return name

    def _word(
        self, fields: Mapping[str, Item], key: str, parent: Item, words: type[_Word]
    ) -> _Word | None:
        said = self._text(fields, key, parent)
        if said in list(words):
            return words(said)
        if said:
            hint = did_you_mean(said, words) or f"one of {', '.join(words)}"
            self.report(fields[key].where, f"unknown {key} `{said}`", hint)
        return None

    def _optional(
        self, fields: Mapping[str, Item], key: str, words: type[_Word], default: _Word
    ) -> _Word:
        if key not in fields:
            return default
        return self._word(fields, key, fields[key], words) or default

    def _selector(self, fields: Mapping[str, Item], item: Item) -> Selector | None:
        named = [field for field in Field if field in fields]
        if len(named) != 1:
            problem = "a rule counts by one thing" if named else "the rule does not say what counts"
            self.report(item.where, problem, f"one of {', '.join(Field)}")
            return None
        field = named[0]
        if field is Field.CODE:
            return Selector(field, self._code(fields, item))
        word = self._word(fields, field, item, _WORDS[field])
        return None if word is None else Selector(field, str(word))

    def _code(self, fields: Mapping[str, Item], item: Item) -> str:
        code = self._text(fields, Field.CODE, item)
        entry = self.registry.get(code)
        if entry is None and code:
            hint = did_you_mean(code, [known.code for known in self.registry])
            count = f"`demur codes list` shows all {len(self.registry)}"
            help_text = f"{hint} {count}" if hint else count
            self.report(fields["code"].where, f"unknown reason code `{code}`", help_text)
        elif entry is not None and entry.effect is not Effect.REFUSE:
            self.report(fields["code"].where, f"`{code}` refuses nothing")
        return code

    def _period(self, fields: Mapping[str, Item], key: str, parent: Item | None) -> timedelta:
        """Return a period; without a parent, it may be left out."""
        if key not in fields:
            if parent is not None:
                self.report(parent.where, f"`{key}` is missing", "like 5m, 1h or 7d")
            return _NOTHING
        period = parse_period(fields[key].value)
        if period is None:
            problem = f"`{fields[key].plain}` is no period"
            self.report(fields[key].where, problem, "like 5m, 1h or 7d, at most 366d")
        return period or _NOTHING

    def _threshold(self, kind: Kind, fields: Mapping[str, Item], item: Item) -> float:
        key = _THRESHOLD.get(kind)
        if key is None:
            return 0
        if key not in fields:
            self.report(item.where, f"`{key}` is missing")
            return 0
        value = fields[key].value
        problem = _number_problem(kind, value)
        if problem is not None:
            self.report(fields[key].where, f"`{key}` is {problem}, not `{fields[key].plain}`")
            return 0
        return float(value)

    def _minimum(self, fields: Mapping[str, Item]) -> int:
        item = fields.get("minimum")
        if item is None:
            return 1
        if isinstance(item.value, bool) or not isinstance(item.value, int) or item.value < 1:
            self.report(item.where, f"`minimum` is a whole number above 0, not `{item.plain}`")
            return 1
        return item.value


def _number_problem(kind: Kind, value: object) -> str | None:
    """Return what a threshold should have been, if it is something else."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
    if kind is Kind.COUNT:
        fits = isinstance(number, int) and 0 <= number <= _MOST
        return None if fits else f"a whole number from 0 to {_MOST}"
    if kind is Kind.SHARE:
        return None if 0 <= number < 100 else "a percentage from 0 to less than 100"
    return None if 1 < number <= 1000 else "a factor above 1, at most 1000"

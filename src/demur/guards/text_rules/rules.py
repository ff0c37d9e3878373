"""Load the text rules of a surface: every problem at once, each with its place and help.

Rules are data, built in or a user's own; both pass the same checks. The rows of a rule are
not matched here: `demur.guards.text_rules.rows` does that.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from demur.canonical import digest
from demur.codes.registry import Registry
from demur.codes.suggest import did_you_mean
from demur.codes.vocabulary import Effect, Surface
from demur.errors import InputError, ManyProblemsError, Problem
from demur.guards.text_rules.rule import WITHIN, Rule, RuleSet
from demur.model.finding import Action
from demur.scan.pattern import WIDEST, Pattern, PatternError, parse_pattern, parse_word
from demur.source import Item, SourceError, read_source

if TYPE_CHECKING:
    from demur.scan.tree import Node

__all__ = ["RuleError", "builtin_rules", "load_rules", "parse_rules"]

SCHEMA_VERSION = "guard_rules.v1"

_TOP = ("schema_version", "surface", "description", "words", "rules")
_RULE = (
    "id",
    "code",
    "action",
    "description",
    "pattern",
    "all",
    "within",
    "unless",
    "refuse",
    "allow",
)
_ID = re.compile(r"[A-Z][A-Z0-9_]*[A-Z0-9]\Z")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_LONGEST_DESCRIPTION = 120
_Word = TypeVar("_Word", bound=StrEnum)


class RuleError(ManyProblemsError):
    """A rule file that cannot be used."""


def load_rules(path: Path | str | Traversable, *, registry: Registry) -> RuleSet:
    """Return the rules in the file at `path`.

    Raises:
        RuleError: The file cannot be read or used; carries every problem.
    """
    source = Path(path) if isinstance(path, str) else path
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or "").lower() or "not UTF-8 text"
        raise RuleError(f"cannot read the rules: {reason}", where=str(path)) from error
    return parse_rules(text, str(path), registry=registry)


def parse_rules(text: str, name: str = "rules", *, registry: Registry) -> RuleSet:
    """Return the rules written in `text`, called `name` in errors.

    Raises:
        RuleError: They cannot be used; carries every problem.
    """
    try:
        source = read_source(name, text)
    except SourceError as error:
        raise RuleError.of(error.problems) from error
    loader = _Loader(registry)
    rules = loader.rule_set(source, name)
    if loader.problems:
        raise RuleError.of(loader.problems)
    return rules


@cache
def builtin_rules(surface: Surface | str) -> RuleSet:
    """Return the rules that demur ships for a surface.

    Raises:
        InputError: The surface has no text rules.
    """
    path = files("demur.guards") / "rules" / f"{surface}.yaml"
    if not path.is_file():
        raise InputError(f"the surface `{surface}` has no built-in text rules")
    return load_rules(path, registry=Registry.load())


class _Loader:
    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.problems: list[Problem] = []
        self.words: dict[str, Node] = {}
        self.patterns: dict[str, Pattern] = {}

    def report(self, where: str, problem: str, help_text: str | None = None) -> None:
        self.problems.append(Problem(where, problem, help_text))

    def rule_set(self, source: Item, name: str) -> RuleSet:
        """Return the rules; worthless if problems were reported on the way."""
        fields = self._fields(source, _TOP, "a rule file")
        version = self._text(fields, "schema_version", source)
        if version and version != SCHEMA_VERSION:
            place = fields["schema_version"].where
            self.report(place, f"unknown schema version `{version}`", f"this is {SCHEMA_VERSION}")
        if "description" in fields:
            self._text(fields, "description", source)
        self._read_words(fields.get("words"))
        return RuleSet(
            surface=self._word(fields, "surface", source, Surface.INPUT),
            rules=tuple(self._rules(fields.get("rules"), source)),
            digest=digest(source.plain),
            where=name,
        )

    def _fields(self, item: Item, known: Iterable[str], what: str) -> Mapping[str, Item]:
        if not isinstance(item.value, dict):
            self.report(item.where, f"{what} is a mapping")
            return {}
        for key, where in item.keys.items():
            if key not in known:
                hint = did_you_mean(key, known) or f"one of {', '.join(known)}"
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

    def _word(self, fields: Mapping[str, Item], key: str, parent: Item, default: _Word) -> _Word:
        words = type(default)
        said = self._text(fields, key, parent)
        if said in list(words):
            return words(said)
        if said:
            hint = did_you_mean(said, words) or f"one of {', '.join(words)}"
            self.report(fields[key].where, f"unknown {key} `{said}`", hint)
        return default

    def _list(self, item: Item | None, what: str) -> list[Item]:
        if item is None:
            return []
        if isinstance(item.value, list):
            return item.value
        self.report(item.where, f"`{what}` is a list")
        return []

    def _rows(self, item: Item | None, what: str) -> tuple[str, ...]:
        rows: dict[str, None] = {}
        for child in self._list(item, what):
            if not isinstance(child.value, str) or not child.value.strip():
                self.report(child.where, f"`{what}` holds texts", "quote it")
            elif child.value in rows:
                self.report(child.where, f"this row stands twice in `{what}`")
            else:
                rows[child.value] = None
        return tuple(rows)

    def _read_words(self, item: Item | None) -> None:
        if item is None:
            return
        if not isinstance(item.value, dict):
            self.report(item.where, "`words` is a mapping")
            return
        for name, child in item.value.items():
            if not _NAME.match(name):
                self.report(item.keys[name], f"`{name}` is no name for words", "like `my_words`")
            if not isinstance(child.value, str) or not child.value.strip():
                self.report(child.where, "words are a text", "quote it")
                continue
            try:
                self.words[name] = parse_word(child.value, self.words)
            except PatternError as error:
                self._bad_pattern(child, error)

    def _bad_pattern(self, item: Item, error: PatternError) -> None:
        near = item.value[error.position : error.position + 24]
        place = f"in the pattern, at character {error.position + 1}"
        at = f"{place}: `{near}`" if near.strip() else place
        self.report(item.where, f"{error.problem} ({at})", error.help)

    def _pattern(self, item: Item) -> Iterator[Pattern]:
        if not isinstance(item.value, str) or not item.value.strip():
            self.report(item.where, "a pattern is a text", "quote it")
            return
        try:
            # The same words often stand in many rules.
            if item.value not in self.patterns:
                self.patterns[item.value] = parse_pattern(item.value, self.words)
            yield self.patterns[item.value]
        except PatternError as error:
            self._bad_pattern(item, error)

    def _rules(self, item: Item | None, source: Item) -> Iterator[Rule]:
        if item is None:
            self.report(source.where, "`rules` is missing")
        ids: dict[str, str] = {}
        for child in self._list(item, "rules"):
            rule = self._rule(child)
            if rule.id and rule.id in ids:
                also = f"also at {ids[rule.id]}"
                self.report(child.where, f"rule `{rule.id}` stands twice", also)
            ids.setdefault(rule.id, child.where)
            yield rule

    def _rule(self, item: Item) -> Rule:
        fields = self._fields(item, _RULE, "a rule")
        rule = Rule(
            id=self._id(fields, item),
            code=self._code(fields, item),
            action=self._word(fields, "action", item, Action.BLOCK),
            description=self._description(fields, item),
            patterns=self._patterns(fields, item),
            within=self._within(fields),
            unless=self._many(fields.get("unless"), "unless"),
            refuse=self._rows(fields.get("refuse"), "refuse"),
            allow=self._rows(fields.get("allow"), "allow"),
            where=item.where,
        )
        for key in ("refuse", "allow"):
            if fields and (key not in fields or fields[key].value == []):
                help_text = "each rule shows what it must hit, and a harmless twin it must not"
                self.report(item.where, f"the rule has no `{key}` rows", help_text)
        return rule

    def _id(self, fields: Mapping[str, Item], item: Item) -> str:
        name = self._text(fields, "id", item)
        if name and not _ID.match(name):
            self.report(fields["id"].where, f"`{name}` is no id of a rule", "like `IGNORE_RULES`")
        return name

    def _description(self, fields: Mapping[str, Item], item: Item) -> str:
        text = self._text(fields, "description", item)
        if len(text) > _LONGEST_DESCRIPTION or not text.isprintable():
            problem = f"a description is one line of at most {_LONGEST_DESCRIPTION} characters"
            self.report(fields["description"].where, problem)
        return text

    def _code(self, fields: Mapping[str, Item], item: Item) -> str:
        code = self._text(fields, "code", item)
        entry = self.registry.get(code)
        if entry is None and code:
            hint = did_you_mean(code, [known.code for known in self.registry])
            count = f"`demur codes list` shows all {len(self.registry)}"
            help_text = f"{hint} {count}" if hint else count
            self.report(fields["code"].where, f"unknown reason code `{code}`", help_text)
        elif entry is not None and entry.effect is not Effect.REFUSE:
            self.report(fields["code"].where, f"`{code}` refuses nothing")
        elif entry is not None and not entry.decided:
            self.report(fields["code"].where, f"`{code}` says that nobody could judge")
        return code

    def _patterns(self, fields: Mapping[str, Item], item: Item) -> tuple[Pattern, ...]:
        if ("pattern" in fields) == ("all" in fields):
            if isinstance(item.value, dict):
                self.report(item.where, "a rule has either `pattern` or `all`")
            return ()
        if "pattern" in fields:
            return tuple(self._pattern(fields["pattern"]))
        if isinstance(fields["all"].value, list) and len(fields["all"].value) < 2:
            self.report(fields["all"].where, "`all` needs two patterns", "or write `pattern`")
        return self._many(fields["all"], "all")

    def _many(self, item: Item | None, what: str) -> tuple[Pattern, ...]:
        return tuple(found for child in self._list(item, what) for found in self._pattern(child))

    def _within(self, fields: Mapping[str, Item]) -> int:
        item = fields.get("within")
        if item is None:
            return WITHIN
        if isinstance(item.value, bool) or not isinstance(item.value, int):
            self.report(item.where, "`within` is a whole number of characters")
        elif not 1 <= item.value <= WIDEST:
            self.report(item.where, f"`within` is from 1 to {WIDEST}")
        elif "all" not in fields and "unless" not in fields:
            self.report(item.where, "`within` says nothing here", "it goes with `all` or `unless`")
        else:
            return item.value
        return WITHIN

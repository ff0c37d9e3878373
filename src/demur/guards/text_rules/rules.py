"""Load the text rules of a surface: every problem at once, each with its place and help.

Rules are data, built in or a user's own; both pass the same checks. The rows of a rule are
not matched here: `demur.guards.text_rules.rows` does that.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from demur.canonical import digest
from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, Surface
from demur.errors import InputError, ManyProblemsError
from demur.guards.text_rules.rule import WITHIN, Rule, RuleSet
from demur.model.finding import Action
from demur.scan.pattern import WIDEST, Pattern, PatternError, parse_pattern, parse_word
from demur.source.item import Item
from demur.source.reading import read_source, read_text

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


class RuleError(ManyProblemsError):
    """A rule file that cannot be used."""


def load_rules(path: Path | str | Traversable, *, registry: Registry) -> RuleSet:
    """Return the rules in the file at `path`.

    Raises:
        RuleError: The file cannot be read or used; carries every problem.
    """
    return parse_rules(read_text(path, "rules", RuleError), str(path), registry=registry)


def parse_rules(text: str, name: str = "rules", *, registry: Registry) -> RuleSet:
    """Return the rules written in `text`, called `name` in errors.

    Raises:
        RuleError: They cannot be used; carries every problem.
    """
    source = read_source(name, text, RuleError)
    rules = _Loader(registry).rule_set(source, name)
    source.raise_problems(RuleError)
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
        self.words: dict[str, Node] = {}
        self.patterns: dict[str, Pattern] = {}

    def rule_set(self, source: Item, name: str) -> RuleSet:
        """Return the rules; not usable if a problem was reported."""
        source.fields(_TOP, "a rule file")
        source.version(SCHEMA_VERSION)
        source.optional_text("description")
        self._read_words(source)
        return RuleSet(
            surface=source.word("surface", Surface) or Surface.INPUT,
            rules=tuple(self._rules(source)),
            digest=digest(source.plain),
            where=name,
        )

    def _read_words(self, source: Item) -> None:
        for name, child in source.entries("words").items():
            if not _NAME.match(name):
                problem = f"`{name}` is no name for words"
                source.value["words"].report_key(name, problem, "like `my_words`")
            if not child.is_text:
                child.report("words are a text", "quote it")
                continue
            try:
                self.words[name] = parse_word(child.value, self.words)
            except PatternError as error:
                _bad_pattern(child, error)

    def _pattern(self, item: Item) -> Iterator[Pattern]:
        if not item.is_text:
            item.report("a pattern is a text", "quote it")
            return
        try:
            # Many rules share a pattern.
            if item.value not in self.patterns:
                self.patterns[item.value] = parse_pattern(item.value, self.words)
            yield self.patterns[item.value]
        except PatternError as error:
            _bad_pattern(item, error)

    def _rules(self, source: Item) -> Iterator[Rule]:
        source.needed("rules")
        ids: dict[str, str] = {}
        for child in source.items("rules"):
            rule = self._rule(child)
            child.once(rule.id, "rule", ids)
            yield rule

    def _rule(self, item: Item) -> Rule:
        fields = item.fields(_RULE, "a rule")
        rule = Rule(
            id=_id(item),
            code=self._code(item),
            action=item.word("action", Action) or Action.BLOCK,
            description=_description(item),
            patterns=self._patterns(item),
            within=_within(item),
            unless=self._many(item, "unless"),
            refuse=_rows(item, "refuse"),
            allow=_rows(item, "allow"),
            where=item.where,
        )
        for key in ("refuse", "allow"):
            if fields and (key not in fields or fields[key].value == []):
                help_text = "each rule shows what it must hit, and a harmless twin it must not"
                item.report(f"the rule has no `{key}` rows", help_text)
        return rule

    def _code(self, rule: Item) -> str:
        code = rule.text("code")
        if not code:
            return code
        item = rule.value["code"]
        entry = item.look_up(self.registry.__getitem__)
        if entry is not None and entry.effect is not Effect.REFUSE:
            item.report(f"`{code}` refuses nothing")
        elif entry is not None and not entry.decided:
            item.report(f"`{code}` says that nobody could judge")
        return code

    def _patterns(self, rule: Item) -> tuple[Pattern, ...]:
        one, many = rule.get("pattern"), rule.get("all")
        if (one is None) == (many is None):
            if isinstance(rule.value, dict):
                rule.report("a rule has either `pattern` or `all`")
            return ()
        if one is not None:
            return tuple(self._pattern(one))
        if many is not None and isinstance(many.value, list) and len(many.value) < 2:
            many.report("`all` needs two patterns", "or write `pattern`")
        return self._many(rule, "all")

    def _many(self, rule: Item, key: str) -> tuple[Pattern, ...]:
        return tuple(found for child in rule.items(key) for found in self._pattern(child))


def _bad_pattern(item: Item, error: PatternError) -> None:
    near = item.value[error.position : error.position + 24]
    place = f"in the pattern, at character {error.position + 1}"
    at = f"{place}: `{near}`" if near.strip() else place
    item.report(f"{error.problem} ({at})", error.help)


def _rows(rule: Item, key: str) -> tuple[str, ...]:
    return tuple(row.value for row in rule.different_texts(key))


def _id(rule: Item) -> str:
    name = rule.text("id")
    if name and not _ID.match(name):
        rule.value["id"].report(f"`{name}` is no id of a rule", "like `IGNORE_RULES`")
    return name


def _description(rule: Item) -> str:
    text = rule.text("description")
    if len(text) > _LONGEST_DESCRIPTION or not text.isprintable():
        problem = f"a description is one line of at most {_LONGEST_DESCRIPTION} characters"
        rule.value["description"].report(problem)
    return text


def _within(rule: Item) -> int:
    item = rule.get("within")
    if item is None:
        return WITHIN
    if item.whole is None:
        item.report("`within` is a whole number of characters")
    elif not 1 <= item.whole <= WIDEST:
        item.report(f"`within` is from 1 to {WIDEST}")
    elif rule.get("all") is None and rule.get("unless") is None:
        item.report("`within` says nothing here", "it goes with `all` or `unless`")
    else:
        return item.whole
    return WITHIN

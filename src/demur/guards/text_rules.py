"""Load the text rules of a surface, and report every problem with its place and a hint.

Rules are data, built in or a user's own; both pass the same checks. Loading does not run the
rows of a rule: `demur.guards.rule_matching` does that.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

from demur.canonical import digest
from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, Surface
from demur.errors import InputError, ManyProblemsError, Problem
from demur.model.finding import Action
from demur.scan.grammar import PatternError, PatternNode, parse_node
from demur.scan.pattern import MAX_MATCH_WIDTH, Pattern, parse_pattern
from demur.source.item import SourceItem
from demur.source.reading import read_source, read_text
from demur.source.schema import load_schema

SCHEMA_VERSION = "guard_rules.v1"
RULES_SCHEMA = load_schema(__file__, SCHEMA_VERSION)
DEFAULT_WITHIN = 120
MAX_DESCRIPTION_LENGTH = 120


class TextRule(msgspec.Struct, frozen=True, kw_only=True):
    """One text rule: its patterns, and the code and action of a hit.

    All of `patterns` must occur, in any order, in a stretch of `within` bytes of folded text;
    one of `unless` that near to it cancels the hit. `refuse` and `allow` are texts that the
    rule must hit and must not.
    """

    id: str
    code: str
    action: Action
    description: str
    patterns: tuple[Pattern, ...]
    within: int = DEFAULT_WITHIN
    unless: tuple[Pattern, ...] = ()
    refuse: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    where: str = ""

    @property
    def width(self) -> int:
        """The maximum number of bytes of folded text in a hit."""
        return self.patterns[0].width if len(self.patterns) == 1 else self.within

    @property
    def reach(self) -> int:
        """The maximum number of bytes that decide a hit, cancelling patterns included."""
        around = 2 * self.within + max((each.width for each in self.unless), default=0)
        return self.width + around if self.unless else self.width


class RuleSet(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one surface. Rule sets of the same digest find the same."""

    surface: Surface
    rules: tuple[TextRule, ...]
    digest: str
    where: str = ""

    def __getitem__(self, rule_id: str) -> TextRule:
        return {rule.id: rule for rule in self.rules}[rule_id]

    @property
    def reach(self) -> int:
        """The maximum number of bytes that decide a hit of any rule."""
        return max((rule.reach for rule in self.rules), default=0)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes that its rules can find, in the order of the rules, each once."""
        return tuple(dict.fromkeys(rule.code for rule in self.rules))

    def extend(self, other: "RuleSet") -> "RuleSet":
        """Return these rules with those of another set after them.

        Raises:
            TextRuleError: Two rules have the same id.
        """
        own = {rule.id for rule in self.rules}
        help_text = "choose another id, or replace the built-in rules"
        problems = [
            Problem(rule.where, f"there is already a rule `{rule.id}`", help_text)
            for rule in other.rules
            if rule.id in own
        ]
        if problems:
            raise TextRuleError.from_problems(problems)
        return RuleSet(
            surface=self.surface,
            rules=(*self.rules, *other.rules),
            digest=digest([self.digest, other.digest]),
            where=other.where,
        )


_ID = re.compile(r"[A-Z][A-Z0-9_]*[A-Z0-9]\Z")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


class TextRuleError(ManyProblemsError):
    """A rule file that cannot be used."""


def load_rules(path: Path | str | Traversable, *, registry: Registry) -> RuleSet:
    """Return the rules in the file at `path`.

    Raises:
        TextRuleError: The file cannot be read or used; carries every problem.
    """
    return parse_rules(read_text(path, "rules", TextRuleError), str(path), registry=registry)


def parse_rules(text: str, name: str = "rules", *, registry: Registry) -> RuleSet:
    """Return the rules written in `text`, called `name` in errors.

    Raises:
        TextRuleError: They cannot be used; carries every problem.
    """
    source = read_source(name, text, TextRuleError)
    rules = _TextRuleLoader(registry).read_rule_set(source, name)
    source.raise_problems(TextRuleError)
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


class _TextRuleLoader:
    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.words: dict[str, PatternNode] = {}
        self.patterns: dict[str, Pattern] = {}

    def read_rule_set(self, source: SourceItem, name: str) -> RuleSet:
        """Return the rules; not usable if a problem was reported."""
        source.as_fields(RULES_SCHEMA["properties"], "a rule file")
        source.check_version(SCHEMA_VERSION)
        source.optional_text("description")
        self._read_words(source)
        return RuleSet(
            surface=source.require_word("surface", Surface) or Surface.INPUT,
            rules=tuple(self._read_rules(source)),
            digest=digest(source.plain_value),
            where=name,
        )

    def _read_words(self, source: SourceItem) -> None:
        for name, child in source.read_entries("words").items():
            if not _NAME.match(name):
                problem = f"`{name}` is no name for words"
                source.value["words"].report_key(name, problem, "like `my_words`")
            if not child.is_text:
                child.report("words are a text", "quote it")
                continue
            try:
                self.words[name] = parse_node(child.value, self.words)
            except PatternError as error:
                _report_pattern(child, error)

    def _read_pattern(self, item: SourceItem) -> Iterator[Pattern]:
        if not item.is_text:
            item.report("a pattern is a text", "quote it")
            return
        try:
            # Many rules share a pattern.
            if item.value not in self.patterns:
                self.patterns[item.value] = parse_pattern(item.value, self.words)
            yield self.patterns[item.value]
        except PatternError as error:
            _report_pattern(item, error)

    def _read_rules(self, source: SourceItem) -> Iterator[TextRule]:
        source.require_item("rules")
        ids: dict[str, str] = {}
        for child in source.list_items("rules"):
            rule = self._read_rule(child)
            child.report_duplicate(rule.id, "rule", ids)
            yield rule

    def _read_rule(self, item: SourceItem) -> TextRule:
        rule = RULES_SCHEMA["properties"]["rules"]["items"]
        fields = item.as_fields(rule["properties"], "a rule")
        text = item.require_text("description")
        if len(text) > MAX_DESCRIPTION_LENGTH or not text.isprintable():
            problem = f"a description is one line of at most {MAX_DESCRIPTION_LENGTH} characters"
            item.value["description"].report(problem)
        name = item.require_text("id")
        if name and not _ID.match(name):
            item.value["id"].report(f"`{name}` is no id of a rule", "like `IGNORE_RULES`")
        rule = TextRule(
            id=name,
            code=self._read_code(item),
            action=item.require_word("action", Action) or Action.BLOCK,
            description=text,
            patterns=self._read_patterns(item),
            within=_read_within(item),
            unless=self._read_many(item, "unless"),
            refuse=_read_rows(item, "refuse"),
            allow=_read_rows(item, "allow"),
            where=item.where,
        )
        for key in ("refuse", "allow"):
            if fields and (key not in fields or fields[key].value == []):
                help_text = "each rule shows what it must hit, and a harmless twin it must not"
                item.report(f"the rule has no `{key}` rows", help_text)
        return rule

    def _read_code(self, rule: SourceItem) -> str:
        code = rule.require_text("code")
        if not code:
            return code
        item = rule.value["code"]
        entry = item.look_up(self.registry.__getitem__)
        if entry is not None and entry.effect is not Effect.REFUSE:
            item.report(f"`{code}` refuses nothing")
        elif entry is not None and not entry.decided:
            item.report(f"`{code}` says that nobody could judge")
        return code

    def _read_patterns(self, rule: SourceItem) -> tuple[Pattern, ...]:
        one, many = rule.get("pattern"), rule.get("all")
        if (one is None) == (many is None):
            if isinstance(rule.value, dict):
                rule.report("a rule has either `pattern` or `all`")
            return ()
        if one is not None:
            return tuple(self._read_pattern(one))
        if many is not None and isinstance(many.value, list) and len(many.value) < 2:
            many.report("`all` needs two patterns", "or write `pattern`")
        return self._read_many(rule, "all")

    def _read_many(self, rule: SourceItem, key: str) -> tuple[Pattern, ...]:
        return tuple(found for child in rule.list_items(key) for found in self._read_pattern(child))


def _report_pattern(item: SourceItem, error: PatternError) -> None:
    near = item.value[error.position : error.position + 24]
    place = f"in the pattern, at character {error.position + 1}"
    at = f"{place}: `{near}`" if near.strip() else place
    item.report(f"{error.problem} ({at})", error.help)


def _read_rows(rule: SourceItem, key: str) -> tuple[str, ...]:
    return tuple(row.value for row in rule.distinct_texts(key))


def _read_within(rule: SourceItem) -> int:
    item = rule.get("within")
    if item is None:
        return DEFAULT_WITHIN
    if item.integer is None:
        item.report("`within` is a whole number of characters")
    elif not 1 <= item.integer <= MAX_MATCH_WIDTH:
        item.report(f"`within` is from 1 to {MAX_MATCH_WIDTH}")
    elif rule.get("all") is None and rule.get("unless") is None:
        item.report("`within` says nothing here", "it goes with `all` or `unless`")
    else:
        return item.integer
    return DEFAULT_WITHIN

"""Load the text rules of a surface, and report every problem with its place and a hint.

Rules are data, built in or a user's own; both pass the same checks. Loading does not run the
rows of a rule: `demur.guards.rule_matching` does that.
"""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec

from demur.canonical import digest
from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, Surface
from demur.errors import InputError, ManyProblemsError, Problem
from demur.model.finding import Action
from demur.scan.cache import cache_folder, load_cached, require_loading, save_cached
from demur.scan.grammar import PatternError, PatternNode, parse_node
from demur.scan.pattern import (
    MAX_MATCH_WIDTH,
    Pattern,
    PatternIndex,
    PatternOpening,
    RequiredWords,
    parse_pattern,
)
from demur.source.item import SourceItem
from demur.source.reading import read_source, read_text
from demur.source.schema import load_schema

SCHEMA_VERSION = "guard_rules.v1"
RULES_SCHEMA = load_schema(__file__, SCHEMA_VERSION)
DEFAULT_WITHIN = 120
MAX_DESCRIPTION_LENGTH = 120


class RuleCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many harmful and how many harmless texts a rule held when it was last measured."""

    right: int
    wrong: int


class TextRule(msgspec.Struct, frozen=True, kw_only=True):
    """One text rule: its patterns, and the code and action of a hit.

    All of `patterns` must occur, in any order, in a stretch of `within` bytes of folded text;
    one of `unless` that near to it cancels the hit. `refuse` and `allow` are texts that the
    rule must hit and must not. `measured` says how right it was on labelled texts.
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
    measured: RuleCounts | None = None
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
    """The rules of one surface. Rule sets of the same digest find the same.

    `languages` are those whose built-in rules of input are added for a text in that language;
    with `language_codes`, only their rules of these codes.
    """

    surface: Surface
    rules: tuple[TextRule, ...]
    digest: str
    where: str = ""
    languages: tuple[str, ...] = ()
    language_codes: tuple[str, ...] = ()

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
            languages=self.languages,
            language_codes=self.language_codes,
        )


_ID = re.compile(r"[A-Z][A-Z0-9_]*[A-Z0-9]\Z")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


class TextRuleError(ManyProblemsError):
    """An invalid rule file."""


def load_rules(path: Path | str | Traversable, *, registry: Registry) -> RuleSet:
    """Return the rules in the file at `path`.

    Raises:
        TextRuleError: demur cannot read or use the file; carries every problem.
    """
    return parse_rules(read_text(path, "rules", TextRuleError), str(path), registry=registry)


def parse_rules(text: str, name: str = "rules", *, registry: Registry) -> RuleSet:
    """Return the rules written in `text`, called `name` in errors.

    Raises:
        TextRuleError: demur cannot use them; carries every problem.
    """
    source = read_source(name, text, TextRuleError)
    rules = _TextRuleLoader(registry).read_rule_set(source, name)
    source.raise_problems(TextRuleError)
    return rules


_loading = threading.RLock()


@cache
def builtin_rules(surface: Surface | str) -> RuleSet:
    """Return the rules that demur ships for a surface.

    Those of `SURFACE_LANGUAGE.yaml` are loaded when a text in that language comes.

    Raises:
        InputError: The surface has no text rules.
    """
    folder = _rules_folder()
    if not (folder / f"{surface}.yaml").is_file():
        raise InputError(f"the surface `{surface}` has no built-in text rules")
    rules = _load_builtin(str(surface))
    named = re.compile(rf"{re.escape(surface)}_([a-z]{{2}})\.yaml")
    found = filter(None, (named.fullmatch(each.name) for each in folder.iterdir()))
    languages = tuple(sorted(match[1] for match in found))
    if not languages:
        return rules
    name = digest([rules.digest, *languages])
    return msgspec.structs.replace(rules, digest=name, languages=languages)


@cache
def language_rules(language: str, codes: tuple[str, ...] = ()) -> RuleSet:
    """Return the built-in rules of input in a language, or those of some codes."""
    rules = _load_builtin(f"{Surface.INPUT}_{language}")
    if not codes:
        return rules
    chosen = tuple(rule for rule in rules.rules if rule.code in codes)
    name = digest([rules.digest, *codes])
    return msgspec.structs.replace(rules, rules=chosen, digest=name)


def add_languages(rules: RuleSet) -> RuleSet:
    """Return rules with those of all their languages, for listing and checking them."""
    for language in rules.languages:
        rules = rules.extend(language_rules(language, rules.language_codes))
    return msgspec.structs.replace(rules, languages=())


class _TextRuleLoader:
    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.words: dict[str, PatternNode] = {}
        self.patterns: dict[str, Pattern] = {}
        # A streamed text is searched in pieces, which do not start where the text does.
        self.streamed = False

    def read_rule_set(self, source: SourceItem, name: str) -> RuleSet:
        """Return the rules; not usable if a problem was reported."""
        source.as_fields(RULES_SCHEMA["properties"], "a rule file")
        source.check_version(SCHEMA_VERSION)
        source.optional_text("description")
        self._read_words(source)
        surface = source.require_word("surface", Surface) or Surface.INPUT
        self.streamed = surface is Surface.OUTPUT
        return RuleSet(
            surface=surface,
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
            if self.streamed and b"^" in self.patterns[item.value].expression:
                item.report("`\\A` is not for streamed text", "leave it out on this surface")
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
            measured=_read_counts(item),
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


def _read_counts(rule: SourceItem) -> RuleCounts | None:
    item = rule.get("measured")
    if item is None:
        return None
    names = ("right", "wrong")
    item.as_fields(names, "counts")
    counts = {}
    for name in names:
        count = item.require_item(name)
        if count is not None and (count.integer is None or count.integer < 0):
            count.report(f"`{name}` is a number of texts", "0 or more")
        counts[name] = (count and count.integer) or 0
    return RuleCounts(**counts)


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


# Parsing some hundred rules and choosing how to search for them takes a second. So built-in rules
# are kept in the cache of the user as plain data, which has the same bytes everywhere.
_COMPILED_DIGESTS = "compiled_rules.json"


class _CompiledPattern(msgspec.Struct, frozen=True, array_like=True):
    source: str
    expression: bytes
    width: int
    core: bytes
    core_size: int
    words: tuple[bytes, ...]
    rate: float
    head: "_CompiledPattern | None" = None
    openings: tuple[bytes, ...] = ()


_decode_parts = msgspec.msgpack.Decoder(tuple[list[_CompiledPattern], msgspec.Raw]).decode


def encode_rules(rules: RuleSet) -> bytes:
    """Return rules as plain data; the same file gives the same bytes wherever it lies."""
    numbers: dict[Pattern, int] = {}

    def number(pattern: Any) -> int:
        return numbers.setdefault(pattern, len(numbers))

    moved = tuple(_move_rule(rule, rule.where.removeprefix(rules.where)) for rule in rules.rules)
    plain = msgspec.structs.replace(rules, rules=moved, where="")
    body = msgspec.Raw(msgspec.msgpack.encode(plain, enc_hook=number))
    # Only answers are read while they grow.
    streamed = rules.surface is Surface.OUTPUT
    searched = {pattern for rule in rules.rules for pattern in rule.patterns} if streamed else set()
    patterns = [_encode_pattern(one, one in searched) for one in numbers]
    return msgspec.msgpack.encode((patterns, body))


def _encode_pattern(pattern: Pattern, is_streamed: bool) -> _CompiledPattern:  # noqa: FBT001 - private
    core, size, (words, rate) = pattern.index
    parts = (pattern.source, pattern.expression, pattern.width, core, size, words, rate)
    opening = pattern.opening if is_streamed else None
    if opening is None:
        return _CompiledPattern(*parts)
    return _CompiledPattern(*parts, _encode_pattern(opening.head, False), opening.longer)


def _decode_pattern(one: _CompiledPattern) -> Pattern:
    index = PatternIndex(one.core, one.core_size, RequiredWords(one.words, one.rate))
    opening = None if one.head is None else PatternOpening(_decode_pattern(one.head), one.openings)
    return Pattern(one.source, one.expression, one.width, index, opening)


def decode_rules(payload: bytes, where: str) -> RuleSet:
    """Return the rules that were encoded, as if they were loaded from the file `where`."""
    compiled, body = _decode_parts(payload)
    patterns = [_decode_pattern(one) for one in compiled]

    def take_pattern(_kind: type, number: int) -> Pattern:
        return patterns[number]

    rules = msgspec.msgpack.decode(body, type=RuleSet, dec_hook=take_pattern)
    moved = tuple(_move_rule(rule, f"{where}{rule.where}") for rule in rules.rules)
    return msgspec.structs.replace(rules, rules=moved, where=where)


def _move_rule(rule: TextRule, where: str) -> TextRule:
    return msgspec.structs.replace(rule, where=where)


def _rules_folder() -> Traversable:
    return files("demur.guards") / "rules"


def _load_builtin(name: str) -> RuleSet:
    """Return the rules of a file in the package, from the cache of the user if they are there."""
    require_loading()
    path = _rules_folder() / f"{name}.yaml"
    with _loading:
        digests = _compiled_digests().get(name)
        folder = cache_folder()
        is_known = digests is not None and digests.rules == _hash(path.read_bytes())
        if digests is None or folder is None or not is_known:
            # The rules were changed since, or nothing may be kept.
            return load_rules(path, registry=Registry.load())
        expected = bytes.fromhex(digests.compiled)
        # INVARIANT: only rules with the digest that the package holds are taken from a cache.
        payload = load_cached(folder, digests.compiled, expected)
        if payload is not None:
            return decode_rules(payload, str(path))
        rules = load_rules(path, registry=Registry.load())
        payload = encode_rules(rules)
        if _hash(payload) == digests.compiled:
            save_cached(folder, digests.compiled, payload)
        return rules


class _CompiledDigests(msgspec.Struct, frozen=True):
    rules: str
    compiled: str


@cache
def _compiled_digests() -> dict[str, _CompiledDigests]:
    path = files("demur.guards") / "data" / _COMPILED_DIGESTS
    raw = path.read_bytes() if path.is_file() else b"{}"
    return msgspec.json.decode(raw, type=dict[str, _CompiledDigests])


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield the file of digests of the built-in rules and of their compiled forms."""
    digests = {}
    for path in sorted(_rules_folder().iterdir(), key=lambda each: each.name):
        data = path.read_bytes()
        if f"schema_version: {SCHEMA_VERSION}".encode() in data.splitlines():
            compiled = encode_rules(load_rules(path, registry=Registry.load()))
            name = path.name.removesuffix(".yaml")
            digests[name] = {"rules": _hash(data), "compiled": _hash(compiled)}
    yield f"src/demur/guards/data/{_COMPILED_DIGESTS}", json.dumps(digests, indent=1) + "\n"

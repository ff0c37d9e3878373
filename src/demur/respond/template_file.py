"""Load template files, and report every problem with its place and a hint.

Built-in words and a user's own pass the same checks. A user's file is layered over the built-in
templates of its locale and may hold as little as one template. A new locale must be able to
answer every code, so it brings all general templates and phrases.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass
from demur.errors import ManyProblemsError
from demur.respond.slots import slot_names
from demur.respond.template import (
    CONDITIONS,
    CONSTRAINED,
    CRISIS,
    FALLBACK_LOCALE,
    GENERAL,
    MIN_ALTERNATIVES,
    PART_NAMES,
    PHRASES,
    UNJUDGED,
    Branch,
    LocaleTemplates,
    RefusalTemplate,
    Slot,
    SlotKind,
    TemplateGroup,
    Templates,
    Wording,
    find_text_problem,
    is_locale,
    wider_locales,
)
from demur.source.item import SourceItem, did_you_mean
from demur.source.reading import read_source, read_text
from demur.source.schema import load_schema

SCHEMA_VERSION = "refusal_templates.v1"
TEMPLATES_SCHEMA = load_schema(__file__, SCHEMA_VERSION)

_FILE = TEMPLATES_SCHEMA["properties"]
_TEMPLATE = _FILE["templates"]["items"]["properties"]
_SLOT = _FILE["slots"]["additionalProperties"]["properties"]
_BRANCH = _FILE["branches"]["items"]["properties"]
_VARIATION = _TEMPLATE["variations"]["items"]["properties"]
_ID = re.compile(r"[a-z][a-z0-9_]*\Z")


class TemplateReader:
    """Reads a template file; the items of the file collect every problem."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def read_locale(self, source: SourceItem) -> str:
        """Return the locale that the file is for."""
        source.as_fields(_FILE, "a template file")
        source.check_version(SCHEMA_VERSION)
        locale = source.require_text("locale")
        if locale and not is_locale(locale):
            source.value["locale"].report(f"`{locale}` is no locale", "like `de` or `pt-BR`")
        return locale or FALLBACK_LOCALE

    def read_locale_templates(
        self, source: SourceItem, locale: str, base: LocaleTemplates | None
    ) -> LocaleTemplates:
        """Return the templates of the file; not usable if a problem was reported."""
        source.optional_text("description")
        own = _read_slots(source)
        slots = own if base is None else {**base.slots, **own}
        return LocaleTemplates(
            locale=locale,
            phrases=dict(_read_phrases(source.get("phrases"))),
            names=dict(source.read_pairs("names")),
            advice=dict(_read_advice(source)),
            resources=tuple(text.value for text in source.list_texts("resources")),
            slots=own,
            branches=tuple(_read_branches(source, slots)),
            templates=dict(self._read_templates(source, slots)),
        )

    def _read_templates(
        self, source: SourceItem, common: Mapping[str, Slot]
    ) -> Iterator[tuple[str, RefusalTemplate]]:
        places: dict[str, str] = {}
        owners: dict[str, str] = {}
        for child in source.list_items("templates"):
            template = self._read_template(child, common)
            child.report_duplicate(template.id, "template", places)
            for code in template.codes:
                owner = owners.setdefault(code, template.id)
                if owner != template.id:
                    child.report(f"`{code}` has two templates: `{owner}` and `{template.id}`")
            yield template.id, template

    def _read_template(self, item: SourceItem, common: Mapping[str, Slot]) -> RefusalTemplate:
        item.as_fields(_TEMPLATE, "a template")
        name = item.require_text("id")
        if name and not _ID.match(name):
            item.value["id"].report(f"`{name}` is no id of a template", "like `privacy`")
        slots = {**common, **_read_slots(item)}
        sure = {key for key, slot in slots.items() if slot.default is not None}
        codes, group = self._read_codes(item)
        template = RefusalTemplate(
            id=name,
            wording=_read_wording(item, slots, sure),
            codes=codes,
            group=group,
            slots=slots,
            branches=tuple(_read_branches(item, slots)),
            variations=tuple(_read_variations(item, slots, sure)),
            resources=item.read_flag("resources") or name == CRISIS,
            asks=item.read_flag("asks"),
            where=item.where,
        )
        for part in PART_NAMES[:-1]:
            if isinstance(item.value, dict):
                item.require_item(part, "a refusal has five parts")
        offered = item.get("alternatives")
        items = [] if offered is None else offered.value
        if offered is not None and isinstance(items, list) and len(items) < MIN_ALTERNATIVES:
            problem = f"there are fewer than {MIN_ALTERNATIVES} alternatives"
            offered.report(problem, "say what can be done instead")
        _check_class(template, item)
        return template

    def _read_codes(self, template: SourceItem) -> tuple[tuple[str, ...], TemplateGroup | None]:
        codes: dict[str, None] = {}
        groups: dict[TemplateGroup, str] = {}
        for child in template.list_texts("codes"):
            entry = child.look_up(self.registry.__getitem__)
            if entry is None:
                continue
            if entry.refusal_class is None:
                child.report(f"`{entry.code}` refuses nothing")
                continue
            codes[entry.code] = None
            groups.setdefault(TemplateGroup(entry.refusal_class, entry.decided), entry.code)
            if len(groups) > 1:
                first, *_ = groups.values()
                problem = f"`{entry.code}` cannot share its words with `{first}`"
                help_text = "a template serves codes of one class, judged or not judged"
                child.report(problem, help_text)
        return tuple(codes), next(iter(groups), None)


# -- common words ----------------------------------------------------------------------------


def _read_phrases(item: SourceItem | None) -> Iterator[tuple[str, str]]:
    if item is None:
        return
    for key, child in item.as_fields(PHRASES, "`phrases`").items():
        if key not in PHRASES:
            continue
        # A gap or a comma may be white space, or empty.
        if not isinstance(child.value, str):
            child.report(f"`{key}` must be a text", "quote it")
            continue
        try:
            held = sorted(slot_names(child.value))
        except ValueError:
            held = ["?"]
        if held != sorted(PHRASES[key]):
            expected = " and ".join(f"`{{{slot}}}`" for slot in PHRASES[key])
            child.report(f"`{key}` must hold {expected or 'no slot'}, once and no other")
        yield key, child.value


def _read_advice(source: SourceItem) -> Iterator[tuple[Advice, str]]:
    words = sorted(Advice)
    item = source.get("advice")
    if item is not None and isinstance(item.value, dict):
        item.as_fields(words, "`advice`")
    for key, text in source.read_pairs("advice"):
        if key in words:
            yield Advice(key), text


# -- slots and branches ----------------------------------------------------------------------


def _read_slots(parent: SourceItem) -> dict[str, Slot]:
    return {name: _read_slot(name, parent.value["slots"]) for name in parent.read_entries("slots")}


def _read_slot(name: str, parent: SourceItem) -> Slot:
    if not _ID.match(name) or name in CONDITIONS:
        parent.report_key(name, f"`{name}` is no name for a slot", "like `tool`")
    item = parent.value[name]
    item.as_fields(_SLOT, "a slot")
    kind = item.require_word("kind", SlotKind) if isinstance(item.value, dict) else None
    evidence, default = item.optional_text("evidence"), item.optional_text("else")
    words = dict(item.read_pairs("words"))
    if bool(words) != (kind is SlotKind.CHOICE):
        item.report(
            "a `choice` lists its `words`, and no other slot does", "words: {KEY: a phrase}"
        )
    return Slot(kind or SlotKind.WORDS, evidence, default, words)


def _read_branches(parent: SourceItem, slots: Mapping[str, Slot]) -> Iterator[Branch]:
    for child in parent.list_items("branches"):
        child.as_fields(_BRANCH, "a branch")
        when = tuple(text.value for text in child.list_texts("when"))
        if isinstance(child.value, dict) and not when:
            child.report("a branch says `when` it is taken", "name its slots")
        for name in when:
            if name not in slots and name not in CONDITIONS:
                hint = did_you_mean(name, (*slots, *CONDITIONS)) or "declare it under `slots`"
                child.report(f"unknown slot `{name}`", hint)
        sure = {name for name in slots if name in when or slots[name].default is not None}
        yield Branch(when, _read_wording(child, slots, sure))


def _read_variations(
    template: SourceItem, slots: Mapping[str, Slot], sure: Iterable[str]
) -> Iterator[Wording]:
    for child in template.list_items("variations"):
        child.as_fields(_VARIATION, "a variation")
        yield _read_wording(child, slots, sure)


# -- wording ---------------------------------------------------------------------------------


def _check_class(template: RefusalTemplate, item: SourceItem) -> None:
    """Report branches of a hard block that wait for a condition."""
    if template.group is None or template.group.refusal_class is not RefusalClass.HARD_BLOCK:
        return
    for branch in template.branches:
        for name in ("missing", "constraints"):
            if name in branch.when:
                problem = f"nothing lifts a hard block, so it never waits for `{name}`"
                item.report(problem, "leave the branch out")


def _read_wording(item: SourceItem, slots: Mapping[str, Slot], sure: Iterable[str]) -> Wording:
    texts_by_part: dict[str, str] = {}
    for part in PART_NAMES:
        words = None if part == "alternatives" else item.get(part)
        if words is not None and words.must_be_text(part):
            texts_by_part[part] = words.value
            _check(words, part, slots, sure)
    texts = list(item.list_texts("alternatives"))
    for one in texts:
        _check(one, "alternatives", slots, sure)
    return Wording(alternatives=tuple(one.value for one in texts), **texts_by_part)


def _check(item: SourceItem, part: str, slots: Mapping[str, Slot], sure: Iterable[str]) -> None:
    problem = find_text_problem(part, item.value)
    if problem is not None:
        item.report(*problem)
    try:
        names = list(slot_names(item.value))
    except ValueError:
        item.report("a brace is no slot", "a slot is written `{name}`")
        return
    for name in names:
        if name not in slots:
            hint = did_you_mean(name, slots) or "declare it under `slots`"
            item.report(f"unknown slot `{name}`", hint)
        elif name not in sure:
            help_text = "give it `else`, or use it in a branch that waits for it"
            item.report(f"the slot `{name}` may be empty here", help_text)


BUILTIN_LOCALES = ("en", "de", "es", "fr", "ja")
_REQUIRED_TEMPLATES = (*GENERAL.values(), UNJUDGED, CONSTRAINED, CRISIS)


class TemplateError(ManyProblemsError):
    """An invalid template file."""


_LocaleMap = Mapping[str, LocaleTemplates]


class _BuiltinTemplates(_LocaleMap):
    """The built-in templates, each locale read on first use: most programs need only one."""

    def __getitem__(self, locale: str) -> LocaleTemplates:
        if locale not in BUILTIN_LOCALES:
            raise KeyError(locale)
        return _read_builtin(locale)

    def __iter__(self) -> Iterator[str]:
        return iter(BUILTIN_LOCALES)

    def __len__(self) -> int:
        return len(BUILTIN_LOCALES)


class _LayeredTemplates(_LocaleMap):
    """Templates layered over others, which are not read for that."""

    def __init__(self, own: _LocaleMap, base: _LocaleMap) -> None:
        self._own = own
        self._base = base

    def __getitem__(self, locale: str) -> LocaleTemplates:
        return self._own[locale] if locale in self._own else self._base[locale]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._base, *self._own)))

    def __len__(self) -> int:
        return len({*self._base, *self._own})


@cache
def _read_builtin(locale: str) -> LocaleTemplates:
    name = f"{locale}.yaml"
    text = (files("demur.respond") / "templates" / name).read_text(encoding="utf-8")
    return parse_templates(text, name, base=Templates({}), registry=_core()).by_locale[locale]


@cache
def _core() -> Registry:
    return Registry.load()


def builtin_templates() -> Templates:
    """Return the built-in templates."""
    return Templates(_BuiltinTemplates())


def load_templates(
    *paths: Path | str, base: Templates | None = None, registry: Registry | None = None
) -> Templates:
    """Return the templates in the files at `paths`, over those in `base` or the built-in ones.

    Raises:
        TemplateError: demur cannot read or use a file; carries every problem.
    """
    found = builtin_templates() if base is None else base
    for path in paths:
        text = read_text(path, "templates", TemplateError)
        found = parse_templates(text, str(path), base=found, registry=registry)
    return found


def parse_templates(
    text: str,
    name: str = "templates",
    *,
    base: Templates | None = None,
    registry: Registry | None = None,
) -> Templates:
    """Return the templates in `text`, called `name` in errors, over those in `base`.

    Raises:
        TemplateError: demur cannot use them; carries every problem.
    """
    known = builtin_templates() if base is None else base
    source = read_source(name, text, TemplateError)
    reader = TemplateReader(default_registry() if registry is None else registry)
    locale = reader.read_locale(source)
    wider = next((one for one in wider_locales(locale) if one in known.by_locale), None)
    layer = None if wider is None else known.by_locale[wider]
    templates = reader.read_locale_templates(source, locale, layer)
    whole = templates if layer is None else templates.layered_over(layer)
    source.raise_problems(TemplateError)
    for problem in _find_gaps(whole):
        source.report(problem, "every code must have words; `en` shows them all")
    source.raise_problems(TemplateError)
    return Templates(_LayeredTemplates({locale: whole}, known.by_locale))


def _find_gaps(book: LocaleTemplates) -> Iterator[str]:
    """Yield what is missing in a locale that must answer every code."""
    lacking = {
        "templates": [name for name in _REQUIRED_TEMPLATES if name not in book.templates],
        "phrases": [name for name in PHRASES if name not in book.phrases],
        "advice": [str(advice) for advice in Advice if advice not in book.advice],
        "resources": [] if book.resources else ["at least one place that helps"],
    }
    for key, names in lacking.items():
        if names:
            yield f"`{key}` of a new locale lack {', '.join(names)}"

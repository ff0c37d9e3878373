"""Read one template file, and tell all that is wrong with it."""

import re
from collections.abc import Iterable, Iterator, Mapping

from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass
from demur.respond.locales import FALLBACK, is_locale
from demur.respond.slots import slot_names
from demur.respond.template import (
    CONDITIONS,
    CRISIS,
    PHRASES,
    Book,
    Branch,
    Group,
    Slot,
    SlotKind,
    Template,
    Wording,
)
from demur.respond.wording import PARTS, text_problem
from demur.source.item import Item
from demur.source.suggest import did_you_mean

__all__ = ["KEYS", "SCHEMA_VERSION", "SLOT_KEYS", "TEMPLATE_KEYS", "Reader"]

SCHEMA_VERSION = "refusal_templates.v1"
KEYS = (
    *("schema_version", "locale", "description", "phrases", "names", "advice"),
    *("resources", "slots", "branches", "templates"),
)
TEMPLATE_KEYS = ("id", "codes", "slots", *PARTS, "branches", "resources")
SLOT_KEYS = ("kind", "evidence", "else")
FEWEST_ALTERNATIVES = 2

_ID = re.compile(r"[a-z][a-z0-9_]*\Z")


class Reader:
    """Reads a template file; the items of the file collect every problem."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def locale(self, source: Item) -> str:
        """Return the locale that the file is for."""
        source.fields(KEYS, "a template file")
        source.version(SCHEMA_VERSION)
        locale = source.text("locale")
        if locale and not is_locale(locale):
            source.value["locale"].report(f"`{locale}` is no locale", "like `de` or `pt-BR`")
        return locale or FALLBACK

    def book(self, source: Item, locale: str, beneath: Book | None) -> Book:
        """Return the templates of the file; not usable if a problem was reported."""
        source.optional_text("description")
        own = _slots(source)
        slots = own if beneath is None else {**beneath.slots, **own}
        return Book(
            locale=locale,
            phrases=dict(_phrases(source.get("phrases"))),
            names=dict(source.pairs("names")),
            advice=dict(_advice(source)),
            resources=tuple(text.value for text in source.texts("resources")),
            slots=own,
            branches=tuple(_branches(source, slots)),
            templates=dict(self._templates(source, slots)),
        )

    def _templates(
        self, source: Item, common: Mapping[str, Slot]
    ) -> Iterator[tuple[str, Template]]:
        places: dict[str, str] = {}
        owners: dict[str, str] = {}
        for child in source.items("templates"):
            template = self._template(child, common)
            child.once(template.id, "template", places)
            for code in template.codes:
                owner = owners.setdefault(code, template.id)
                if owner != template.id:
                    child.report(f"`{code}` has two templates: `{owner}` and `{template.id}`")
            yield template.id, template

    def _template(self, item: Item, common: Mapping[str, Slot]) -> Template:
        item.fields(TEMPLATE_KEYS, "a template")
        name = item.text("id")
        if name and not _ID.match(name):
            item.value["id"].report(f"`{name}` is no id of a template", "like `privacy`")
        slots = {**common, **_slots(item)}
        sure = {key for key, slot in slots.items() if slot.otherwise is not None}
        codes, group = self._codes(item)
        template = Template(
            id=name,
            wording=_wording(item, slots, sure),
            codes=codes,
            group=group,
            slots=slots,
            branches=tuple(_branches(item, slots)),
            resources=item.flag("resources") or name == CRISIS,
            where=item.where,
        )
        _check_whole(item)
        _check_class(template, item)
        return template

    def _codes(self, template: Item) -> tuple[tuple[str, ...], Group | None]:
        codes: dict[str, None] = {}
        groups: dict[Group, str] = {}
        for child in template.texts("codes"):
            entry = child.look_up(self.registry.__getitem__)
            if entry is None:
                continue
            if entry.refusal_class is None:
                child.report(f"`{entry.code}` refuses nothing")
                continue
            codes[entry.code] = None
            groups.setdefault(Group(entry.refusal_class, entry.decided), entry.code)
            if len(groups) > 1:
                first, *_ = groups.values()
                problem = f"`{entry.code}` cannot share its words with `{first}`"
                help_text = "a template serves codes of one class, judged or not judged"
                child.report(problem, help_text)
        return tuple(codes), next(iter(groups), None)


# -- common words ----------------------------------------------------------------------------


def _phrases(item: Item | None) -> Iterator[tuple[str, str]]:
    if item is None:
        return
    for key, child in item.fields(PHRASES, "`phrases`").items():
        if key not in PHRASES:
            continue
        # A gap or a comma may be white space, or empty.
        if not isinstance(child.value, str):
            child.report(f"`{key}` must be a text", "quote it")
            continue
        _check_phrase(key, child)
        yield key, child.value


def _check_phrase(key: str, item: Item) -> None:
    try:
        held = sorted(slot_names(item.value))
    except ValueError:
        held = ["?"]
    if held != sorted(PHRASES[key]):
        wanted = " and ".join(f"`{{{slot}}}`" for slot in PHRASES[key])
        item.report(f"`{key}` must hold {wanted or 'no slot'}, once and no other")


def _advice(source: Item) -> Iterator[tuple[Advice, str]]:
    words = sorted(Advice)
    item = source.get("advice")
    if item is not None and isinstance(item.value, dict):
        item.fields(words, "`advice`")
    for key, text in source.pairs("advice"):
        if key in words:
            yield Advice(key), text


# -- slots and branches ----------------------------------------------------------------------


def _slots(parent: Item) -> dict[str, Slot]:
    return {name: _slot(name, parent.value["slots"]) for name in parent.entries("slots")}


def _slot(name: str, parent: Item) -> Slot:
    if not _ID.match(name) or name in CONDITIONS:
        parent.report_key(name, f"`{name}` is no name for a slot", "like `tool`")
    item = parent.value[name]
    item.fields(SLOT_KEYS, "a slot")
    kind = item.word("kind", SlotKind) if isinstance(item.value, dict) else None
    return Slot(
        kind=kind or SlotKind.WORDS,
        evidence=item.optional_text("evidence"),
        otherwise=item.optional_text("else"),
    )


def _branches(parent: Item, slots: Mapping[str, Slot]) -> Iterator[Branch]:
    for child in parent.items("branches"):
        child.fields(("when", *PARTS), "a branch")
        when = tuple(text.value for text in child.texts("when"))
        if isinstance(child.value, dict) and not when:
            child.report("a branch says `when` it is taken", "name its slots")
        for name in when:
            if name not in slots and name not in CONDITIONS:
                hint = did_you_mean(name, (*slots, *CONDITIONS)) or "declare it under `slots`"
                child.report(f"unknown slot `{name}`", hint)
        sure = {name for name in slots if name in when or slots[name].otherwise is not None}
        yield Branch(when, _wording(child, slots, sure))


# -- wording ---------------------------------------------------------------------------------


def _check_whole(item: Item) -> None:
    for part in PARTS[:-1]:
        if isinstance(item.value, dict):
            item.needed(part, "a refusal has five parts")
    offered = item.get("alternatives")
    listed = [] if offered is None else offered.value
    if offered is not None and isinstance(listed, list) and len(listed) < FEWEST_ALTERNATIVES:
        problem = f"there are fewer than {FEWEST_ALTERNATIVES} alternatives"
        offered.report(problem, "say what can be done instead")


def _check_class(template: Template, item: Item) -> None:
    """Report branches of a hard block that wait for a condition."""
    if template.group is None or template.group.refusal_class is not RefusalClass.HARD_BLOCK:
        return
    for branch in template.branches:
        for name in ("missing", "constraints"):
            if name in branch.when:
                problem = f"nothing lifts a hard block, so it never waits for `{name}`"
                item.report(problem, "leave the branch out")


def _wording(item: Item, slots: Mapping[str, Slot], sure: Iterable[str]) -> Wording:
    said: dict[str, str] = {}
    for part in PARTS:
        words = None if part == "alternatives" else item.get(part)
        if words is not None and words.must_be_text(part):
            said[part] = words.value
            _check_text(words, part, slots, sure)
    texts = list(item.texts("alternatives"))
    for one in texts:
        _check_text(one, "alternatives", slots, sure)
    return Wording(alternatives=tuple(one.value for one in texts), **said)


def _check_text(item: Item, part: str, slots: Mapping[str, Slot], sure: Iterable[str]) -> None:
    problem = text_problem(part, item.value)
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

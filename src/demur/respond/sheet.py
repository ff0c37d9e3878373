"""Read one template file, and tell all that is wrong with it."""

import re
from collections.abc import Iterable, Iterator, Mapping

from demur.codes.registry import Registry
from demur.codes.suggest import did_you_mean
from demur.codes.vocabulary import Advice, RefusalClass
from demur.respond.form import Form
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
from demur.source import Item

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


class Reader(Form):
    """Turns a file into a book, collecting every problem on the way."""

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self.registry = registry

    def locale(self, source: Item) -> str:
        """Return the locale that the file is for."""
        fields = self.fields(source, KEYS, "a template file")
        version = self.text(fields, "schema_version", source)
        if version and version != SCHEMA_VERSION:
            place = fields["schema_version"].where
            self.report(place, f"unknown schema version `{version}`", f"this is {SCHEMA_VERSION}")
        locale = self.text(fields, "locale", source)
        if locale and not is_locale(locale):
            self.report(fields["locale"].where, f"`{locale}` is no locale", "like `de` or `pt-BR`")
        return locale or FALLBACK

    def book(self, source: Item, locale: str, beneath: Book | None) -> Book:
        """Return what the file says; worthless if problems were reported on the way."""
        fields = source.value if isinstance(source.value, dict) else {}
        if "description" in fields:
            self.text(fields, "description", source)
        own = self._slots(fields.get("slots"))
        slots = own if beneath is None else {**beneath.slots, **own}
        return Book(
            locale=locale,
            phrases=dict(self._phrases(fields.get("phrases"))),
            names=dict(self.pairs(fields.get("names"), "names")),
            advice=dict(self._advice(fields.get("advice"))),
            resources=self.texts(fields.get("resources"), "resources"),
            slots=own,
            branches=tuple(self._branches(fields.get("branches"), slots)),
            templates=dict(self._templates(fields.get("templates"), slots)),
        )

    # -- common words ------------------------------------------------------------------------

    def _phrases(self, item: Item | None) -> Iterator[tuple[str, str]]:
        if item is None:
            return
        for key, child in self.fields(item, PHRASES, "`phrases`").items():
            if key not in PHRASES:
                continue
            # A gap or a comma may well be white space, or nothing at all.
            if not isinstance(child.value, str):
                self.report(child.where, f"`{key}` must be a text", "quote it")
                continue
            self._check_phrase(key, child)
            yield key, child.value

    def _check_phrase(self, key: str, item: Item) -> None:
        try:
            held = sorted(slot_names(item.value))
        except ValueError:
            held = ["?"]
        if held != sorted(PHRASES[key]):
            wanted = " and ".join(f"`{{{slot}}}`" for slot in PHRASES[key])
            problem = f"`{key}` must hold {wanted or 'no slot'}, once and no other"
            self.report(item.where, problem)

    def _advice(self, item: Item | None) -> Iterator[tuple[Advice, str]]:
        words = {str(advice) for advice in Advice}
        if item is not None and isinstance(item.value, dict):
            self.fields(item, sorted(words), "`advice`")
        for key, text in self.pairs(item, "advice"):
            if key in words:
                yield Advice(key), text

    # -- slots and branches ------------------------------------------------------------------

    def _slots(self, item: Item | None) -> dict[str, Slot]:
        if item is None:
            return {}
        if not isinstance(item.value, dict):
            self.report(item.where, "`slots` is a mapping")
            return {}
        return {name: self._slot(name, child, item) for name, child in item.value.items()}

    def _slot(self, name: str, item: Item, parent: Item) -> Slot:
        if not _ID.match(name) or name in CONDITIONS:
            self.report(parent.keys[name], f"`{name}` is no name for a slot", "like `tool`")
        fields = self.fields(item, SLOT_KEYS, "a slot")
        kind = self.text(fields, "kind", item) if isinstance(item.value, dict) else ""
        if kind and kind not in list(SlotKind):
            hint = did_you_mean(kind, SlotKind) or f"one of {', '.join(SlotKind)}"
            self.report(fields["kind"].where, f"unknown kind `{kind}`", hint)
            kind = ""
        return Slot(
            kind=SlotKind(kind or SlotKind.WORDS),
            evidence=self.text(fields, "evidence", item) if "evidence" in fields else None,
            otherwise=self.text(fields, "else", item) if "else" in fields else None,
        )

    def _branches(self, item: Item | None, slots: Mapping[str, Slot]) -> Iterator[Branch]:
        for child in self.items(item, "branches"):
            fields = self.fields(child, ("when", *PARTS), "a branch")
            when = self.texts(fields.get("when"), "when")
            if isinstance(child.value, dict) and not when:
                self.report(child.where, "a branch says `when` it is taken", "name its slots")
            for name in when:
                if name not in slots and name not in CONDITIONS:
                    hint = did_you_mean(name, (*slots, *CONDITIONS)) or "declare it under `slots`"
                    self.report(child.where, f"unknown slot `{name}`", hint)
            sure = {name for name in slots if name in when or slots[name].otherwise is not None}
            yield Branch(when, self._wording(fields, slots, sure))

    # -- templates ---------------------------------------------------------------------------

    def _templates(
        self, item: Item | None, common: Mapping[str, Slot]
    ) -> Iterator[tuple[str, Template]]:
        places: dict[str, str] = {}
        owners: dict[str, str] = {}
        for child in self.items(item, "templates"):
            template = self._template(child, common)
            if template.id in places:
                also = f"also at {places[template.id]}"
                self.report(child.where, f"template `{template.id}` stands twice", also)
            places.setdefault(template.id, child.where)
            for code in template.codes:
                owner = owners.setdefault(code, template.id)
                if owner != template.id:
                    problem = f"`{code}` has two templates: `{owner}` and `{template.id}`"
                    self.report(child.where, problem)
            yield template.id, template

    def _template(self, item: Item, common: Mapping[str, Slot]) -> Template:
        fields = self.fields(item, TEMPLATE_KEYS, "a template")
        name = self.text(fields, "id", item)
        if name and not _ID.match(name):
            self.report(fields["id"].where, f"`{name}` is no id of a template", "like `privacy`")
        slots = {**common, **self._slots(fields.get("slots"))}
        sure = {key for key, slot in slots.items() if slot.otherwise is not None}
        codes, group = self._codes(fields.get("codes"))
        template = Template(
            id=name,
            wording=self._wording(fields, slots, sure),
            codes=codes,
            group=group,
            slots=slots,
            branches=tuple(self._branches(fields.get("branches"), slots)),
            resources=self._flag(fields, "resources") or name == CRISIS,
            where=item.where,
        )
        self._check_whole(fields, item)
        self._check_class(template)
        return template

    def _flag(self, fields: Mapping[str, Item], key: str) -> bool:
        value = fields[key].value if key in fields else False
        if not isinstance(value, bool):
            self.report(fields[key].where, f"`{key}` is true or false")
        return value is True

    def _codes(self, item: Item | None) -> tuple[tuple[str, ...], Group | None]:
        codes: dict[str, None] = {}
        groups: dict[Group, str] = {}
        for child in self.items(item, "codes"):
            entry = self.registry.get(child.value) if isinstance(child.value, str) else None
            if entry is None:
                hint = did_you_mean(str(child.value), [known.code for known in self.registry])
                count = f"`demur codes list` shows all {len(self.registry)}"
                help_text = f"{hint} {count}" if hint else count
                self.report(child.where, f"unknown reason code `{child.value}`", help_text)
            elif entry.refusal_class is None:
                self.report(child.where, f"`{entry.code}` refuses nothing")
            else:
                codes[entry.code] = None
                groups.setdefault(Group(entry.refusal_class, entry.decided), entry.code)
                if len(groups) > 1:
                    first, *_ = groups.values()
                    problem = f"`{entry.code}` cannot share its words with `{first}`"
                    help_text = "a template serves codes of one class, judged or not judged"
                    self.report(child.where, problem, help_text)
        return tuple(codes), next(iter(groups), None)

    def _check_whole(self, fields: Mapping[str, Item], item: Item) -> None:
        for part in PARTS[:-1]:
            if isinstance(item.value, dict) and part not in fields:
                self.report(item.where, f"`{part}` is missing", "a refusal has five parts")
        offered = fields.get("alternatives")
        listed = [] if offered is None else offered.value
        if offered and isinstance(listed, list) and len(listed) < FEWEST_ALTERNATIVES:
            problem = f"there are fewer than {FEWEST_ALTERNATIVES} alternatives"
            self.report(offered.where, problem, "say what can be done instead")

    def _check_class(self, template: Template) -> None:
        """Report words that speak of lifting what cannot be lifted."""
        if template.group is None or template.group.refusal_class is not RefusalClass.HARD_BLOCK:
            return
        for branch in template.branches:
            for name in ("missing", "constraints"):
                if name in branch.when:
                    problem = f"nothing lifts a hard block, so it never waits for `{name}`"
                    self.report(template.where, problem, "leave the branch out")

    def _wording(
        self, fields: Mapping[str, Item], slots: Mapping[str, Slot], sure: Iterable[str]
    ) -> Wording:
        said: dict[str, str] = {}
        for part in PARTS:
            if part in fields and part != "alternatives" and self.is_text(fields[part], part):
                said[part] = fields[part].value
                self._check_text(fields[part], part, slots, sure)
        offered = self.items(fields.get("alternatives"), "alternatives")
        texts = [one for one in offered if self.is_text(one, "alternatives")]
        for one in texts:
            self._check_text(one, "alternatives", slots, sure)
        return Wording(alternatives=tuple(one.value for one in texts), **said)

    def _check_text(
        self, item: Item, part: str, slots: Mapping[str, Slot], sure: Iterable[str]
    ) -> None:
        problem = text_problem(part, item.value)
        if problem is not None:
            self.report(item.where, *problem)
        try:
            names = list(slot_names(item.value))
        except ValueError:
            self.report(item.where, "a brace is no slot", "a slot is written `{name}`")
            return
        for name in names:
            if name not in slots:
                hint = did_you_mean(name, slots) or "declare it under `slots`"
                self.report(item.where, f"unknown slot `{name}`", hint)
            elif name not in sure:
                help_text = "give it `else`, or use it in a branch that waits for it"
                self.report(item.where, f"the slot `{name}` may be empty here", help_text)

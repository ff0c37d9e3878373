"""Compose the words of a refusal: select a template, fill its slots, join its parts.

The same facts always give the same words.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import asdict

from demur.codes.vocabulary import Advice, RefusalClass
from demur.errors import InputError
from demur.model.help_lines import find_national_lines
from demur.respond.case import Audience, RefusalCase
from demur.respond.slots import choose_help_lines, fill_slot, fill_text, readable_name, slot_names
from demur.respond.template import (
    CONSTRAINED,
    CRISIS,
    FALLBACK_LOCALE,
    GENERAL,
    MIN_ALTERNATIVES,
    UNJUDGED,
    LocaleTemplates,
    RefusalTemplate,
    Wording,
)
from demur.source.item import did_you_mean


class FiveParts(NamedTuple):
    """The five parts of a refusal that keeps the conversation open."""

    acknowledgment: str
    boundary: str
    reason: str
    alternatives: tuple[str, ...]
    engagement: str


class RewordResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether demur took the reworded text, and if not, why."""

    accepted: bool
    problems: tuple[str, ...] = ()


class GracefulRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal in words, for one audience. Build one with `compose`.

    `reason` is one sentence and serves twice: it is the third of the five parts, and the
    first of the four recovery fields. Each alternative completes the sentence that offers
    it, in English "I can …". `text` is the whole text for the audience; `line`, `code` and
    `next_step` are for programs, and `view` selects the fields an audience may see.
    `template` and `variation` name the words that were chosen; 0 is the template's own wording.
    """

    text: str
    acknowledgment: str
    boundary: str
    reason: str
    alternatives: tuple[str, ...]
    engagement: str
    what_can_be_done_now: str
    how_to_proceed: str
    next_step: Advice
    code: str
    refusal_class: RefusalClass
    line: str
    locale: str
    template: str
    variation: int = 0
    audience: Audience = Audience.END_USER
    missing: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    # Facts that a reworded text must contain.
    facts: tuple[str, ...] = ()
    polish: RewordResult | None = None

    @property
    def parts(self) -> FiveParts:
        """The five parts alone."""
        return FiveParts(*(getattr(self, part) for part in FiveParts._fields))

    def __str__(self) -> str:
        return self.text


def select_template(templates: LocaleTemplates, case: RefusalCase) -> RefusalTemplate:
    """Return the template for a case: its code's, its parent's, or that of its class.

    Templates of another class are skipped, however near their code is: a refusal that can be
    lifted needs other words than one that cannot. Only if a code of the policy's default made the
    class of a soft code stricter, the words stay those of the soft code.
    """
    if case.crisis:
        return templates.templates[CRISIS]
    if case.allowed:
        return templates.templates[CONSTRAINED]
    found = (templates.template_for(code) for code in case.codes)
    own = next((one for one in found if one is not None and _fits(one, case)), None)
    if own is None:
        general = GENERAL[case.group.refusal_class] if case.group.decided else UNJUDGED
        own = templates.templates[general]
    if case.needs_help and not own.resources:
        return templates.templates[CRISIS]
    return own


def _fits(template: RefusalTemplate, case: RefusalCase) -> bool:
    if template.group == case.group:
        return True
    softer = case.group._replace(refusal_class=RefusalClass.SOFT_BLOCK)
    return case.group.refusal_class is RefusalClass.WORKFLOW_BLOCK and template.group == softer


_MAX_LISTED = 12
_CALL = re.compile(r"\Acall (?=[\d+*(])")
# The word between two numbers, in a contact without further words.
_EITHER, _ENGLISH_WORD = " or ", re.compile(r"[a-z]{2,}")
# What a question asks for anyway.
ASKED_FOR = frozenset({"context", "scope"})
# The slot that holds what is missing, for a template that asks.
_NEEDED = "needed"
Variation: TypeAlias = int | str | None


def choose_variation(variation: Variation, decision_id: str | None, count: int) -> int:
    """Return the number of the variation, out of `count`: as given, or by the digest of a text.

    Without one, the decision's id chooses: the same decision always has the same words.
    """
    key = decision_id if variation is None else variation
    if key is None:
        return 0
    if isinstance(key, str):
        key = int.from_bytes(hashlib.sha256(key.encode(errors="replace")).digest()[:4])
    return key % count


class _ListedItems(NamedTuple):
    """The bulleted lists: missing fields, constraints, and help lines."""

    missing: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()


def compose_words(
    case: RefusalCase,
    templates: LocaleTemplates,
    *,
    slots: Mapping[str, object],
    resources: Iterable[Any] = (),
    locale: str | None = None,
    variation: Variation = None,
) -> GracefulRefusal:
    """Return the refusal for people, in the language of the templates.

    The country in `locale` chooses the help lines for a person in need.

    Raises:
        InputError: No text has a slot of a name that was given.
    """
    for name in slots:
        if not templates.has_slot(name):
            known = set(templates.slots).union(*(one.slots for one in templates.templates.values()))
            hint = did_you_mean(str(name), known) or f"one of {', '.join(sorted(known))}"
            raise InputError(f"unknown slot `{name}`", help=hint)
    template = select_template(templates, case)
    lists = _collect_lists(case, templates, template, resources, locale)
    filled = {
        name: value
        for name, slot in template.slots.items()
        if (value := fill_slot(slot, slots.get(name), case.evidence, templates.phrases)) is not None
    }
    if lists.missing and _NEEDED in template.slots:
        # These names are fit to be shown, whatever their length.
        filled[_NEEDED] = templates.phrases["comma"].join(lists.missing)
    conditions = {*filled, *(name for name, items in lists._asdict().items() if items)}
    conditions |= {name for name in ("held_answer", "from_user") if getattr(case, name)}
    defaults = {name: slot.default or "" for name, slot in template.slots.items()}
    number = choose_variation(variation, case.decision_id, len(template.variations) + 1)
    wording = _choose(template, templates, conditions, number)
    composer = _WordComposer(templates, wording, {**defaults, **filled}, lists)
    return composer.build_refusal(case, template, filled, number)


def _collect_lists(
    case: RefusalCase,
    templates: LocaleTemplates,
    template: RefusalTemplate,
    resources: Iterable[Any],
    locale: str | None,
) -> _ListedItems:
    if template.resources:
        # A person in need is not given a checklist.
        national = [asdict(line) for line in find_national_lines(locale)]
        if templates.locale.partition("-")[0] != FALLBACK_LOCALE:
            # A number needs no English word before it; "call or text 988" does.
            either = templates.phrases["or"].strip("、")
            for line in national:
                line["contact"] = _CALL.sub("", line["contact"])
                if not _ENGLISH_WORD.search(line["contact"].replace(_EITHER, "")):
                    line["contact"] = line["contact"].replace(_EITHER, either)
        lines = choose_help_lines((*resources, *case.help), (*national, *templates.resources))
        return _ListedItems(resources=lines)
    # INVARIANT: under a hard block the words name no condition that would lift it.
    if case.is_hard:
        return _ListedItems()
    constraints = _names(case, case.constraints, templates)
    # A question says what a grant of context or of a scope only names.
    missing = (name for name in case.missing if not (template.asks and name in ASKED_FOR))
    return _ListedItems(_names(case, missing, templates), constraints)


def _names(case: RefusalCase, names: Iterable[str], templates: LocaleTemplates) -> tuple[str, ...]:
    readable = (readable_name(name, templates.names, trusted=case.names_trusted) for name in names)
    shown = (name or templates.phrases["unnamed"] for name in readable)
    return tuple(dict.fromkeys(shown))[:_MAX_LISTED]


def _choose(
    template: RefusalTemplate, templates: LocaleTemplates, conditions: set[str], variation: int
) -> Wording:
    """Return the texts to use: of matching branches, then of the variation, then the template's."""
    # A person in need gets only the words written for that.
    common = () if template.resources else templates.branches
    every = (*template.branches, *common)
    taken = [branch.wording for branch in every if conditions.issuperset(branch.when)]
    varied = (Wording(), *template.variations)[variation]
    layers = (*taken, varied, template.wording)
    single = {
        part: next((text for layer in layers if (text := getattr(layer, part))), None)
        for part in Wording._fields
        if part != "alternatives"
    }
    special = next((layer.alternatives for layer in taken if layer.alternatives), ())
    usual = varied.alternatives or template.wording.alternatives
    alternatives = special if len(special) >= MIN_ALTERNATIVES else (*special, *usual)
    return Wording(alternatives=alternatives, **single)


def _capitalize_first(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}"


class _WordComposer:
    """Joins the chosen texts and their slot values into a refusal."""

    def __init__(
        self,
        templates: LocaleTemplates,
        wording: Wording,
        values: Mapping[str, str],
        lists: _ListedItems,
    ) -> None:
        self.templates = templates
        self.wording = wording
        self.values = values
        self.lists = lists
        self.gap = templates.phrases["gap"]

    def part_text(self, part: str) -> str:
        return fill_text(getattr(self.wording, part) or "", self.values)

    def alternative_texts(self) -> tuple[str, ...]:
        return tuple(fill_text(text, self.values) for text in self.wording.alternatives)

    def offer_sentence(self) -> str:
        *most, last = self.alternative_texts()
        phrases = self.templates.phrases
        items = phrases["or"].join([phrases["comma"].join(most), last]) if most else last
        return fill_text(phrases["offer"], {"list": items})

    def refusal_sentence(self) -> str:
        both = {"boundary": self.part_text("boundary"), "reason": self.part_text("reason")}
        return _capitalize_first(fill_text(self.templates.phrases["because"], both))

    def part_sentence(self, part: str) -> str:
        return f"{_capitalize_first(self.part_text(part))}{self.templates.phrases['stop']}"

    def list_blocks(self) -> Iterator[str]:
        for name, lines in self.lists._asdict().items():
            # A question that names what is missing needs no list of it.
            if lines and not (name == "missing" and self.values.get(_NEEDED)):
                yield "\n- ".join([self.templates.phrases[name], *lines])

    def full_text(self, template: RefusalTemplate) -> str:
        first, question = self.part_text("acknowledgment"), self.part_text("engagement")
        blocks = list(self.list_blocks())
        if template.asks:
            return (
                "\n\n".join([first, *blocks, question])
                if blocks
                else f"{first}{self.gap}{question}"
            )
        last = self.gap.join([self.offer_sentence(), question])
        if template.resources:
            return "\n\n".join([first, *blocks, self.gap.join([self.refusal_sentence(), last])])
        opening = self.gap.join([first, self.refusal_sentence()])
        return "\n\n".join([opening, *blocks, last]) if blocks else f"{opening}\n{last}"

    def current_options(self) -> str:
        phrases = self.templates.phrases
        for name, lines in self.lists._asdict().items():
            if lines:
                return self.gap.join([phrases[name], phrases["comma"].join(lines)])
        return self.offer_sentence()

    def build_refusal(
        self,
        case: RefusalCase,
        template: RefusalTemplate,
        filled: Mapping[str, str],
        variation: int,
    ) -> GracefulRefusal:
        stated = self.wording.engagement if template.asks else self.wording.boundary
        used = set(slot_names(f"{stated}{self.wording.reason}"))
        way = self.part_text("how_to_proceed")
        return GracefulRefusal(
            text=self.full_text(template),
            acknowledgment=self.part_text("acknowledgment"),
            boundary=self.part_sentence("boundary"),
            reason=self.part_sentence("reason"),
            alternatives=self.alternative_texts(),
            engagement=self.part_text("engagement"),
            what_can_be_done_now=self.current_options(),
            how_to_proceed=way or self.templates.advice[case.next_step],
            next_step=case.next_step,
            code=case.code,
            refusal_class=case.group.refusal_class,
            line=case.line,
            locale=self.templates.locale,
            template=template.id,
            variation=variation,
            **self.lists._asdict(),
            facts=(*(value for name, value in filled.items() if name in used), *chain(*self.lists)),
        )

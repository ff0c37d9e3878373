"""Put a refusal in words: choose, fill, join. The same facts give the same words."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from demur.errors import InputError
from demur.respond.case import Case
from demur.respond.choosing import choose
from demur.respond.graceful import GracefulRefusal
from demur.respond.help_lines import help_lines
from demur.respond.plain import spoken
from demur.respond.slots import fill_slot, filled, slot_names
from demur.respond.template import Book, Template, Wording
from demur.source.suggest import did_you_mean

__all__ = ["put_in_words"]

_MOST_LISTED = 12


class _Lists(NamedTuple):
    """The bulleted lists: missing fields, constraints, and help lines."""

    missing: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()


def put_in_words(
    case: Case, book: Book, *, slots: Mapping[str, object], resources: Iterable[Any] = ()
) -> GracefulRefusal:
    """Return the refusal for people, in the language of the templates.

    Raises:
        InputError: No text has a slot of a name that was given.
    """
    _check_slots(slots, book)
    template = choose(book, case)
    lists = _lists(case, book, template, resources)
    known = dict(_known(case, template, slots, book.phrases))
    seen = {*known, *(name for name, listed in lists._asdict().items() if listed)}
    if case.held_answer:
        seen.add("held_answer")
    usual = {name: slot.otherwise or "" for name, slot in template.slots.items()}
    wording = _wording(template, book, seen)
    said = _Said(book, wording, {**usual, **known}, lists)
    return said.graceful(case, template, known)


def _check_slots(slots: Mapping[str, object], book: Book) -> None:
    for name in slots:
        if not book.knows_slot(name):
            known = {*book.slots, *(s for one in book.templates.values() for s in one.slots)}
            hint = did_you_mean(str(name), known) or f"one of {', '.join(sorted(known))}"
            raise InputError(f"unknown slot `{name}`", help=hint)


def _lists(case: Case, book: Book, template: Template, resources: Iterable[Any]) -> _Lists:
    if template.resources:
        # A person in need is not given a checklist.
        return _Lists(resources=help_lines((*resources, *case.help), book.resources))
    # INVARIANT: under a hard block the words name no condition that would lift it.
    if case.is_hard:
        return _Lists()
    return _Lists(_spoken(case, case.missing, book), _spoken(case, case.constraints, book))


def _spoken(case: Case, names: Iterable[str], book: Book) -> tuple[str, ...]:
    known = (spoken(name, book.names, vouched=case.vouched) for name in names)
    said = (name or book.phrases["unnamed"] for name in known)
    return tuple(dict.fromkeys(said))[:_MOST_LISTED]


def _known(
    case: Case, template: Template, given: Mapping[str, object], phrases: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for name, slot in template.slots.items():
        value = fill_slot(slot, given.get(name), case.evidence, phrases)
        if value is not None:
            yield name, value


def _wording(template: Template, book: Book, seen: Iterable[str]) -> Wording:
    """Return the texts to use: those of matching branches first, then the template's own."""
    # A person in need gets only the words written for that.
    common = () if template.resources else book.branches
    taken = [one.wording for one in (*template.branches, *common) if set(one.when) <= set(seen)]
    layers = (*taken, template.wording)
    single = {
        part: next((text for layer in layers if (text := getattr(layer, part))), None)
        for part in Wording._fields
        if part != "alternatives"
    }
    special = next((layer.alternatives for layer in taken if layer.alternatives), ())
    return Wording(alternatives=(*special, *template.wording.alternatives), **single)


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}"


class _Said:
    """Joins the chosen texts and their slot values into a refusal."""

    def __init__(
        self, book: Book, wording: Wording, values: Mapping[str, str], lists: _Lists
    ) -> None:
        self.book = book
        self.wording = wording
        self.values = values
        self.lists = lists
        self.gap = book.phrases["gap"]

    def text(self, part: str) -> str:
        return filled(getattr(self.wording, part) or "", self.values)

    def alternatives(self) -> tuple[str, ...]:
        return tuple(filled(text, self.values) for text in self.wording.alternatives)

    def offer(self) -> str:
        *most, last = self.alternatives()
        phrases = self.book.phrases
        listed = phrases["or"].join([phrases["comma"].join(most), last]) if most else last
        return filled(phrases["offer"], {"list": listed})

    def refused(self) -> str:
        both = {"boundary": self.text("boundary"), "reason": self.text("reason")}
        return _sentence(filled(self.book.phrases["because"], both))

    def alone(self, part: str) -> str:
        return f"{_sentence(self.text(part))}{self.book.phrases['stop']}"

    def blocks(self) -> Iterator[str]:
        for name, lines in self.lists._asdict().items():
            if lines:
                yield "\n".join([self.book.phrases[name], *(f"- {line}" for line in lines)])

    def whole(self, *, help_first: bool) -> str:
        first, offer = self.text("acknowledgment"), self.offer()
        last = self.gap.join([offer, self.text("engagement")])
        blocks = list(self.blocks())
        if help_first:
            return "\n\n".join([first, *blocks, self.gap.join([self.refused(), last])])
        opening = self.gap.join([first, self.refused()])
        return "\n\n".join([opening, *blocks, last]) if blocks else f"{opening}\n{last}"

    def now(self) -> str:
        for name, lines in self.lists._asdict().items():
            if lines:
                return self.gap.join(
                    [self.book.phrases[name], self.book.phrases["comma"].join(lines)]
                )
        return self.offer()

    def graceful(self, case: Case, template: Template, known: Mapping[str, str]) -> GracefulRefusal:
        used = set(slot_names(f"{self.wording.boundary}{self.wording.reason}"))
        return GracefulRefusal(
            text=self.whole(help_first=template.resources),
            acknowledgment=self.text("acknowledgment"),
            boundary=self.alone("boundary"),
            reason=self.alone("reason"),
            alternatives=self.alternatives(),
            engagement=self.text("engagement"),
            what_can_be_done_now=self.now(),
            how_to_proceed=self.text("how_to_proceed") or self.book.advice[case.next_step],
            next_step=case.next_step,
            code=case.code,
            refusal_class=case.group.refusal_class,
            line=case.line,
            locale=self.book.locale,
            template=template.id,
            missing=self.lists.missing,
            constraints=self.lists.constraints,
            resources=self.lists.resources,
            facts=(*(known[name] for name in known if name in used), *_all(self.lists)),
        )


def _all(lists: _Lists) -> Iterator[str]:
    for listed in lists:
        yield from listed

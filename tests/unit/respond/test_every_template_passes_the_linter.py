"""What demur composes is what demur would call graceful: every code, locale and branch."""

from collections.abc import Iterator, Mapping
from itertools import product

import pytest

from demur.classification import make_decision
from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Surface, Verdict
from demur.guards.text_rules import add_languages, builtin_rules
from demur.model.decision import Decision
from demur.model.refusal import Refusal
from demur.respond.graceful import compose
from demur.respond.lint import lint_refusal
from demur.respond.lint_report import RefusalVerdict
from demur.respond.template_file import builtin_templates

REFUSING = [entry for entry in Registry.load() if entry.refusal_class is not None]
LOCALES = builtin_templates().locales
WORDINGS = 3
# What a caller may fill in, to reach each branch that waits for it: concern, alternative, goal.
FILLED = {
    "en": ("the noise at night", "draft a letter", "sleep well"),
    "de": ("den Lärm in der Nacht", "einen Brief entwerfen", "gut zu schlafen"),
    "es": ("el ruido de la noche", "redactar una carta", "dormir bien"),
    "fr": ("le bruit de la nuit", "rédiger une lettre", "bien dormir"),
    "ja": ("夜の騒音", "手紙の下書き", "よく眠る"),
}


def slots(locale: str) -> list[Mapping[str, object]]:
    """Return what to fill in, one set for each branch that the locale has."""
    concern, alternative, goal = FILLED[locale]
    book = builtin_templates().for_locale(locale)
    sets: list[Mapping[str, object]] = [
        {"persona": "Ada"},
        {"concern": concern},
        {"alternative": alternative},
        {"goal": goal, "alternative": alternative},
    ]
    return [given for given in sets if all(book.has_slot(name) for name in given)]


def sources(entry: Entry) -> Iterator[Decision | Refusal]:
    """Yield a refusal under this code in each form that changes its words."""
    yield Refusal.from_code(entry.code, "what was asked")
    yield Refusal.from_code(entry.code, surface=Surface.OUTPUT)
    yield make_decision(Verdict.DENY, [entry.code])
    if entry.refusal_class is RefusalClass.WORKFLOW_BLOCK:
        yield make_decision(
            Verdict.ESCALATE, [entry.code], missing=["order_id", "approval", "target"]
        )
    if entry.refusal_class is RefusalClass.SOFT_BLOCK:
        yield make_decision(Verdict.ESCALATE, [entry.code], constraints=["read_only", "dry_run"])


def wordings(entry: Entry, locale: str) -> Iterator[tuple[str, Decision | Refusal]]:
    """Yield each text that can come out for a code, with what it was composed from."""
    for source in sources(entry):
        for variation in range(WORDINGS):
            yield compose(source, locale=locale, variation=variation).text, source
    for given in slots(locale):
        refusal = Refusal.from_code(entry.code)
        yield compose(refusal, locale=locale, slots=given).text, refusal


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("entry", REFUSING, ids=lambda entry: entry.code)
def test_every_template_in_every_locale_is_graceful(entry: Entry, locale: str) -> None:
    for text, source in wordings(entry, locale):
        report = lint_refusal(text, source)

        assert (report.verdict, report.locale) == (RefusalVerdict.GRACEFUL, locale), (
            text,
            report.problems,
        )


@pytest.mark.parametrize("locale", LOCALES)
def test_every_template_has_three_wordings_that_differ(locale: str) -> None:
    for template in builtin_templates().for_locale(locale).templates.values():
        own = (template.wording, *template.variations)

        assert len(own) == WORDINGS, template.id
        assert len({one.acknowledgment for one in own}) == WORDINGS, template.id
        assert len({one.engagement for one in own}) == WORDINGS, template.id


@pytest.mark.parametrize("locale", LOCALES)
def test_every_choice_of_a_template_is_graceful_in_every_wording(locale: str) -> None:
    for template in builtin_templates().for_locale(locale).templates.values():
        for slot in template.slots.values():
            for key, code in product(slot.words, template.codes):
                refusal = Refusal.from_code(code, evidence={slot.evidence or "": key})
                for variation in range(WORDINGS):
                    text = compose(refusal, locale=locale, variation=variation).text
                    report = lint_refusal(text, refusal)

                    assert report.verdict is RefusalVerdict.GRACEFUL, (text, report.problems)


def test_every_choice_by_rule_names_a_rule_of_the_input_guard() -> None:
    rules = {rule.id for rule in add_languages(builtin_rules(Surface.INPUT)).rules}
    books = builtin_templates().by_locale.values()
    slots = [
        slot for book in books for one in book.templates.values() for slot in one.slots.values()
    ]
    named = {key for slot in slots if slot.evidence in {"rule", "wrapper"} for key in slot.words}

    assert named
    assert not {key for key in named if not any(key in rule for rule in rules)}

from typing import Any

import pytest

from demur.classification.conclude import make_decision
from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Surface, Verdict
from demur.model.refusal import Refusal
from demur.respond.case import ComposeSource
from demur.respond.compose import compose
from demur.respond.lint import lint_refusal
from demur.respond.loading import BUILTIN_LOCALES, builtin_templates
from demur.respond.samples import render_samples

REFUSING = [entry for entry in Registry.load() if entry.refusal_class is not None]
SLOTS = {
    "en": {"concern": "the noise at night", "alternative": "draft a note to the landlord"},
    "de": {"concern": "der Lärm in der Nacht", "alternative": "einen Brief entwerfen"},
    "es": {"concern": "el ruido de noche", "alternative": "redactar una nota"},
    "fr": {"concern": "le bruit la nuit", "alternative": "rédiger un mot"},
    "ja": {"concern": "夜の騒音", "alternative": "手紙の下書き"},
}


def complaints(source: ComposeSource, locale: str, **settings: Any) -> list[str]:
    words = compose(source, locale=locale, **settings)
    found = lint_refusal(words.text, source, locale).problems
    return [f"{words.template}: {problem.rule}: {problem.message}" for problem in found]


def test_every_template_of_every_locale_is_said() -> None:
    said = {(sample.refusal.locale, sample.refusal.template) for sample in render_samples()}
    books = builtin_templates().by_locale

    assert said == {(name, one) for name, book in books.items() for one in book.templates}


def test_every_template_of_every_locale_reads_well() -> None:
    for source, words in render_samples():
        assert lint_refusal(words.text, source, words.locale).problems == (), words.text


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
def test_what_is_missing_and_what_limits_it_reads_well(locale: str) -> None:
    for entry in REFUSING:
        workflow = entry.refusal_class is RefusalClass.WORKFLOW_BLOCK
        decided = make_decision(
            Verdict.DENY if entry.decided else Verdict.ABSTAIN,
            [entry.code],
            missing=["ticket_id", "approval"] if workflow else [],
            constraints=[] if workflow else ["dry_run"],
        )

        assert complaints(decided, locale) == []


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
def test_branches_read_well(locale: str) -> None:
    for entry in REFUSING:
        held = Refusal.from_code(entry.code, surface=Surface.OUTPUT)

        assert complaints(held, locale, persona="Milo") == []
        assert complaints(Refusal.from_code(entry.code), locale, slots=SLOTS[locale]) == []

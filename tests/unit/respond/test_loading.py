from pathlib import Path

import pytest

from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass
from demur.model.refusal import Refusal
from demur.respond.compose import compose
from demur.respond.loading import (
    BUILTIN_LOCALES,
    TemplateError,
    builtin_templates,
    load_templates,
    parse_templates,
)

HEAD = "schema_version: refusal_templates.v1\nlocale: en\n"
OWN = f"""{HEAD}names: {{ticket_id: case number}}
templates:
  - id: our_refunds
    codes: [REFUND_OVER_ESCALATION_LIMIT]
    acknowledgment: I see you'd like your money back.
    boundary: I can't pay out that much by myself
    reason: a colleague has a look at larger sums
    alternatives: [pass it on with your receipt, refund a part right away]
    engagement: Which would you like?
"""


def test_every_built_in_locale_can_answer() -> None:
    books = builtin_templates().by_locale

    assert builtin_templates().locales == BUILTIN_LOCALES
    assert [book.locale for book in books.values()] == list(BUILTIN_LOCALES)
    assert len(books) == len(BUILTIN_LOCALES)
    assert "nl" not in books


def test_english_has_words_for_every_code_but_the_most_general() -> None:
    book = builtin_templates().by_locale["en"]
    without = [entry.code for entry in Registry.load() if book.template_for(entry.code) is None]

    assert without == ["POLICY_VIOLATION", "SUCCESS_MEMORY_SIMILAR_ALLOW"]


def test_own_words_lie_over_the_built_in_ones(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(OWN, encoding="utf-8")
    templates = load_templates(path)

    own = compose(Refusal.from_code("REFUND_OVER_ESCALATION_LIMIT"), templates=templates)
    other = compose(Refusal.from_code("SPEND_OVER_APPROVAL_LIMIT"), templates=templates)
    assert own.template == "our_refunds"
    assert own.boundary == "I can't pay out that much by myself."
    assert other.template == "approval_limit"
    assert templates.by_locale["en"].names["ticket_id"] == "case number"
    assert builtin_templates().by_locale["en"].names["ticket_id"] == "ticket number"


def test_an_id_that_is_built_in_replaces_its_template() -> None:
    text = OWN.replace("our_refunds", "general_workflow").replace(
        "    codes: [REFUND_OVER_ESCALATION_LIMIT]\n", ""
    )
    templates = parse_templates(text)
    words = compose(Refusal.from_code("RATE_LIMIT"), templates=templates)

    assert templates.by_locale["en"].templates["general_workflow"].wording.engagement == (
        "Which would you like?"
    )
    assert words.template == "rate_limit"


def test_a_region_lies_over_its_language() -> None:
    text = OWN.replace("locale: en", "locale: de-CH")
    templates = parse_templates(text)
    own = compose(
        Refusal.from_code("REFUND_OVER_ESCALATION_LIMIT"), locale="de_CH", templates=templates
    )
    other = compose(Refusal.from_code("RATE_LIMIT"), locale="de_CH", templates=templates)

    assert (own.template, own.locale) == ("our_refunds", "de-CH")
    assert other.text == compose(Refusal.from_code("RATE_LIMIT"), locale="de").text
    assert templates.locales == (*BUILTIN_LOCALES, "de-CH")
    assert len(templates.by_locale) == len(BUILTIN_LOCALES) + 1


def test_a_new_locale_must_be_able_to_answer_every_code() -> None:
    with pytest.raises(TemplateError) as caught:
        parse_templates(OWN.replace("locale: en", "locale: nl"), "nl.yaml")

    said = [problem.problem for problem in caught.value.problems]
    assert [text.split("`")[1] for text in said] == ["templates", "phrases", "advice", "resources"]
    assert "general_hard, general_workflow" in said[0]
    assert caught.value.where == "nl.yaml:1:1"


def test_a_complete_new_locale_is_negotiated() -> None:
    english = Path(__file__).parents[3] / "src/demur/respond/templates/en.yaml"
    text = english.read_text(encoding="utf-8").replace("locale: en", "locale: nl", 1)
    templates = parse_templates(text)

    assert (
        compose(Refusal.from_code("RATE_LIMIT"), locale="nl-BE", templates=templates).locale == "nl"
    )


def test_own_codes_get_own_words(tmp_path: Path) -> None:
    path = tmp_path / "acme.json"
    path.write_text(
        """{"schema_version": "reason_codes.v1", "version": "1.0.0", "domain": "acme.example",
        "codes": [{"code": "acme.example/KYC_EXPIRED", "parent": "CONTEXT_MISSING",
        "since": "1.0.0", "description": "The identity check is out of date."}]}""",
        encoding="utf-8",
    )
    registry = Registry.load(path)
    text = OWN.replace("REFUND_OVER_ESCALATION_LIMIT", "acme.example/KYC_EXPIRED")
    templates = parse_templates(text, registry=registry)
    source = Refusal.from_code("acme.example/KYC_EXPIRED", registry=registry)

    assert compose(source, templates=templates, registry=registry).template == "our_refunds"
    # Without them, the words of the parent.
    assert compose(source, registry=registry).template == "missing_context"
    assert source.refusal_class is RefusalClass.WORKFLOW_BLOCK


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="cannot read the templates: no such file"):
        load_templates(tmp_path / "none.yaml")
    with pytest.raises(TemplateError, match="not YAML"):
        parse_templates("a: [")

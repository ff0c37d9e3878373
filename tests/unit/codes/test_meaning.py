from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import pytest

from demur.codes import meaning, vocabulary
from demur.codes.document import RegistryDocument, read_document
from demur.codes.meaning import (
    ADVICE_MEANING,
    CLASS_MEANING,
    FAMILY_MEANING,
    RETRY_SCOPE_MEANING,
    VOCABULARIES,
    TaxonomyReference,
    Vocabulary,
    describe_class,
    describe_deprecation,
    describe_next_step,
    describe_replacement,
    entry_headline,
    entry_references,
    explain,
    explanation_sections,
    load_taxonomies,
)
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import CORE_PATH, Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope
from demur.errors import UnknownCodeError

RCE_RISK = """\
RCE_RISK: Remote code execution
  Code or data from outside would be run without anyone having read it, such as
  a download piped to a shell or an untrusted object unpickled.

What to do
  Stop here, and do not send it again in these or other words. The refusal
  covers every variant of the call under the same rule.

Facts
  class     HARD_BLOCK. Nothing lifts it: no approval, no context, no limit.
  severity  critical. Someone should look at it now.
  advice    do_not_retry (scope: rule)
"""


def test_an_explanation_reads_like_documentation(core: Registry) -> None:
    assert explain("RCE_RISK", registry=core).startswith(RCE_RISK)


@pytest.mark.parametrize("code", ReasonCode)
def test_every_core_code_is_explained_in_a_screenful(code: str, core: Registry) -> None:
    text = explain(code, registry=core)
    lines = text.splitlines()

    assert 12 <= len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in text


def test_a_deprecated_code_starts_with_what_to_use_instead(core: Registry) -> None:
    first = explain("OLD_FRAUD_BLOCK", registry=core).splitlines()[0]

    assert first == "Deprecated since 1.0.0. Use CHARGEBACK_RISK_BLOCK instead."


def test_the_facts_name_grants_obligations_and_relatives(core: Registry) -> None:
    assert "  grants    quota\n" in explain("RATE_LIMIT", registry=core)
    assert "  always    human_review, crisis_resources\n" in explain(
        "CRISIS_ESCALATION", registry=core
    )
    assert "  decided   no\n" in explain("INTERNAL_ERROR", registry=core)
    assert "  children  SKILL_INJECTION\n" in explain("CONTEXT_INJECTION", registry=core)
    assert "  effect    allow." in explain("SUCCESS_MEMORY_SIMILAR_ALLOW", registry=core)


def test_many_phrases_are_counted_and_few_are_shown(core: Registry) -> None:
    text = explain("RATE_LIMIT", registry=core)
    more = len(core["RATE_LIMIT"].aliases) - 2

    assert f"`rate limit exceeded`, `too many requests` and {more} more\n" in text


def test_sections_without_content_are_left_out(core: Registry) -> None:
    headings = [section.heading for section in explanation_sections(core["INTERNAL_ERROR"], core)]

    assert headings == ["INTERNAL_ERROR: Internal error", "What to do", "Facts", "Evidence"]


def test_text_of_an_organisation_cannot_reach_the_terminal_raw(
    acme: Callable[..., RegistryDocument],
) -> None:
    document = acme(
        {
            "code": "acme.com/KYC",
            "title": "Kyc\x1b[31m",
            "description": "One\nline\x1b[0m.",
            "evidence": {"da\x07ys": "how\nmany"},
            "xref": {"acme": ["K1"]},
        }
    )
    text = explain("acme.com/KYC", registry=Registry(read_document(CORE_PATH), [document]))

    assert text.replace("\n", "").isprintable()
    assert "acme.com/KYC: Kyc\\x1b[31m\n  One line\\x1b[0m.\n" in text
    assert "  da\\x07ys  how\\nmany" in text
    assert text.endswith("Elsewhere\n  K1  acme")


def test_an_unknown_code_is_an_error_with_a_suggestion(core: Registry) -> None:
    with pytest.raises(UnknownCodeError) as caught:
        explain("RCE_RISC", registry=core)

    assert "did you mean `RCE_RISK`?" in (caught.value.help or "")


def test_explain_uses_the_default_registry_if_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acme_text: Callable[..., str]
) -> None:
    path = tmp_path / "acme.json"
    path.write_text(acme_text({"code": "acme.com/KYC"}))
    monkeypatch.setenv("DEMUR_REGISTRY", str(path))

    assert explain("acme.com/KYC").startswith("acme.com/KYC: Kyc\n")


def test_every_id_in_the_registry_is_listed(core: Registry) -> None:
    known = load_taxonomies()
    unlisted = [
        (entry.code, key, name)
        for entry in core
        for key, names in entry.xref.items()
        for name in names
        if key not in known or name not in known[key].ids
    ]

    assert unlisted == []


def test_every_taxonomy_and_id_has_a_title() -> None:
    for key, taxonomy in load_taxonomies().items():
        assert taxonomy.key == key
        assert all((taxonomy.title, taxonomy.version, *taxonomy.ids.values()))


def test_a_reference_is_shown_in_the_words_of_its_taxonomy(core: Registry) -> None:
    assert entry_references(core["RCE_RISK"])[0] == TaxonomyReference(
        "OWASP Top 10 for LLM Applications 2025", "LLM05", "Improper Output Handling"
    )


def test_a_code_without_cross_references_has_none(core: Registry) -> None:
    assert entry_references(core["INTERNAL_ERROR"]) == ()


def test_a_reference_by_an_organisation_stays_as_written(core: Registry) -> None:
    entry = core["RCE_RISK"]._replace(xref={"acme": ("K1",), "atlas": ("AML.X",)})

    assert entry_references(entry) == (
        TaxonomyReference("acme", "K1", ""),
        TaxonomyReference("MITRE ATLAS 2026.09", "AML.X", ""),
    )


def test_every_closed_vocabulary_has_its_words_explained() -> None:
    closed = {
        each
        for each in vars(vocabulary).values()
        if isinstance(each, type) and issubclass(each, StrEnum) and each is not StrEnum
    }

    assert {known.words for known in VOCABULARIES} == closed


@pytest.mark.parametrize("known", VOCABULARIES, ids=lambda known: known.title)
def test_every_word_has_one_short_sentence_of_its_own(known: Vocabulary) -> None:
    sentences = list(known.meaning.values())

    assert set(known.meaning) == set(known.words)
    assert len(set(sentences)) == len(sentences)
    for sentence in sentences:
        assert sentence.endswith(".")
        assert sentence[0].isupper()
        assert len(sentence) <= 90


def test_every_table_of_meanings_is_part_of_a_vocabulary() -> None:
    tables = [getattr(meaning, name) for name in dir(meaning) if name.endswith("_MEANING")]
    known = [vocabulary.meaning for vocabulary in VOCABULARIES]

    assert all(table in known for table in tables if table is not FAMILY_MEANING)


def test_every_core_family_is_explained(core: Registry) -> None:
    assert {entry.family for entry in core} == set(FAMILY_MEANING)


def test_a_headline_reads_as_one_sentence(core: Registry) -> None:
    assert entry_headline(core["RCE_RISK"]) == "Refused: remote code execution."
    assert entry_headline(core["SUCCESS_MEMORY_SIMILAR_ALLOW"]) == "Allowed: similar past success."
    assert entry_headline(core["RCE_RISK"]._replace(title="PII leak")) == "Refused: PII leak."


def test_standing_says_whether_a_refusal_can_be_lifted(core: Registry) -> None:
    assert describe_class(core["RCE_RISK"]) == CLASS_MEANING[RefusalClass.HARD_BLOCK]
    assert describe_class(core["INTERNAL_ERROR"]) == "Nothing was judged, so nothing may run."
    assert describe_class(core["SUCCESS_MEMORY_SIMILAR_ALLOW"]) == "The code speaks for the action."


def test_the_next_step_is_the_advice_then_how_far_it_reaches(core: Registry) -> None:
    assert describe_next_step(core["RCE_RISK"]) == (
        ADVICE_MEANING[Advice.DO_NOT_RETRY],
        RETRY_SCOPE_MEANING[RetryScope.RULE],
    )


def test_the_next_step_names_grants_and_obligations(core: Registry) -> None:
    assert "A grant of kind `quota` lifts the block." in describe_next_step(core["RATE_LIMIT"])
    assert describe_next_step(core["CRISIS_ESCALATION"])[-2:] == (
        "Lifted or not, a person looks at the case.",
        "Lifted or not, the answer names places where help can be found.",
    )


def test_no_grant_is_offered_where_nothing_was_judged(core: Registry) -> None:
    assert any(
        "No grant lifts it" in sentence for sentence in describe_next_step(core["INTERNAL_ERROR"])
    )


def test_there_is_nothing_to_do_about_a_code_that_allows(core: Registry) -> None:
    [sentence] = describe_next_step(core["SUCCESS_MEMORY_SIMILAR_ALLOW"])

    assert sentence.startswith("There is nothing to do")


def test_a_deprecated_code_says_what_to_use_instead(core: Registry) -> None:
    old = core["OLD_FRAUD_BLOCK"]

    assert describe_replacement(old) == "Use CHARGEBACK_RISK_BLOCK instead."
    assert describe_deprecation(old) == "Deprecated since 1.0.0. Use CHARGEBACK_RISK_BLOCK instead."
    assert describe_replacement(old._replace(replacement=None)) == "No code replaces it."
    assert describe_replacement(core["RCE_RISK"]) is None
    assert describe_deprecation(core["RCE_RISK"]) is None

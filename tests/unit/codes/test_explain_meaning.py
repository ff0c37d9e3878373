from enum import StrEnum

import pytest

from demur.codes import explain, vocabulary
from demur.codes.explain import (
    ADVICE_MEANING,
    CLASS_MEANING,
    FAMILY_MEANING,
    RETRY_SCOPE_MEANING,
    VOCABULARIES,
    Vocabulary,
    describe_class,
    describe_deprecation,
    describe_next_step,
    describe_replacement,
    entry_headline,
)
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope


def test_every_closed_vocabulary_has_its_words_explained() -> None:
    closed = {getattr(vocabulary, name) for name in vocabulary.__all__}

    assert all(issubclass(words, StrEnum) for words in closed)
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


def test_every_table_of_meanings_is_in_use() -> None:
    tables = [getattr(explain, name) for name in explain.__all__ if name.endswith("_MEANING")]

    assert len(tables) == len(VOCABULARIES) + 1
    assert all(known.meaning in tables for known in VOCABULARIES)


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

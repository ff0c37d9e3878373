import pytest

from demur.codes.export.vocabulary_page import vocabulary_page
from demur.codes.meaning import VOCABULARIES, Vocabulary


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda vocabulary: vocabulary.title)
def test_every_word_stands_under_its_vocabulary_with_its_meaning(vocabulary: Vocabulary) -> None:
    section = vocabulary_page().partition(f"\n## {vocabulary.title}\n")[2].partition("\n## ")[0]

    assert vocabulary.question in section
    for word in vocabulary.words:
        assert f"| `{word}` | {vocabulary.meaning[word]} |" in section

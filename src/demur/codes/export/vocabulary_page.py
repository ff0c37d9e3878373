"""The reference page of the closed vocabularies."""

from demur.codes.export.markup import GENERATED_COMMENT, markdown_code, markdown_table
from demur.codes.meaning import VOCABULARIES, Vocabulary

__all__ = ["vocabulary_page"]

_VOCABULARY_INTRO = (
    "Only [reason codes](codes.md) are open: an organisation may add its own. "
    "The words on this page are closed, so a program may branch on every one of them."
)


def vocabulary_page() -> str:
    """Return the page in `docs/reference/`: every word and what it means."""
    sections = (_vocabulary_section(vocabulary) for vocabulary in VOCABULARIES)
    return "\n\n".join((GENERATED_COMMENT, "# Vocabulary", _VOCABULARY_INTRO, *sections)) + "\n"


def _vocabulary_section(vocabulary: Vocabulary) -> str:
    rows = ((markdown_code(word), vocabulary.meaning[word]) for word in vocabulary.words)
    return f"## {vocabulary.title}\n\n{vocabulary.question}\n\n{markdown_table(('Word', 'Meaning'), rows)}"

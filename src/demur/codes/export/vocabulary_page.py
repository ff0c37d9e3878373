"""The reference page of the closed vocabularies."""

from demur.codes.export.markup import COMMENT, code, table
from demur.codes.meaning import VOCABULARIES, Vocabulary

__all__ = ["vocabulary_page"]

_INTRO = (
    "Only [reason codes](codes.md) are open: an organisation may add its own. "
    "The words on this page are closed, so a program may branch on every one of them."
)


def vocabulary_page() -> str:
    """Return the page in `docs/reference/`: every word and what it means."""
    sections = (_section(vocabulary) for vocabulary in VOCABULARIES)
    return "\n\n".join((COMMENT, "# Vocabulary", _INTRO, *sections)) + "\n"


def _section(vocabulary: Vocabulary) -> str:
    rows = ((code(word), vocabulary.meaning[word]) for word in vocabulary.words)
    return f"## {vocabulary.title}\n\n{vocabulary.question}\n\n{table(('Word', 'Meaning'), rows)}"

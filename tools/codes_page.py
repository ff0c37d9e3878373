"""Write the files that follow from the core registry: reference pages, schemas and source code."""

from collections.abc import Iterator

from demur.codes.entry import Entry
from demur.codes.export import INDEX_INTRO, PageLinks, family_tables, render_page
from demur.codes.export_code import render_go
from demur.codes.export_data import refusal_schema, render_sarif
from demur.codes.markup import GENERATED_COMMENT, markdown_code, markdown_table
from demur.codes.meaning import VOCABULARIES, Vocabulary
from demur.codes.registry import Registry
from demur.model.decision import Outcome

_VOCABULARY_INTRO = (
    "Only [reason codes](codes.md) are open: an organisation may add its own. "
    "The words on this page are closed, so a program may branch on every one of them."
)


def code_page(entry: Entry, registry: Registry) -> str:
    """Return the page of a core code in `docs/reference/codes/`."""
    links = PageLinks("{}.md".format, vocabulary="../vocabulary.md")
    foot = "[All reason codes](../codes.md)"
    return "\n\n".join((GENERATED_COMMENT, render_page(entry, registry, links), foot)) + "\n"


def index_page(registry: Registry) -> str:
    """Return the index in `docs/reference/`: the codes by family."""
    hint = (
        "`demur codes explain CODE` says the same in a terminal. "
        "The words for class and severity are explained under [vocabulary](vocabulary.md)."
    )
    tables = family_tables(registry, "codes/{}.md".format, "## {}")
    return "\n\n".join((GENERATED_COMMENT, "# Reason codes", INDEX_INTRO, hint, *tables)) + "\n"


def vocabulary_page() -> str:
    """Return the page in `docs/reference/`: every word and what it means."""
    sections = (_outcome_section(), *map(_vocabulary_section, VOCABULARIES))
    return "\n\n".join((GENERATED_COMMENT, "# Vocabulary", _VOCABULARY_INTRO, *sections)) + "\n"


def _outcome_section() -> str:
    rows = ((markdown_code(outcome), outcome.sentence) for outcome in Outcome)
    question = "What does a decision mean for a person? It leads every page and every command."
    table = markdown_table(("Word", "Meaning"), rows)
    return f"## Outcome\n\n{question}\n\n{table}"


def _vocabulary_section(vocabulary: Vocabulary) -> str:
    rows = ((markdown_code(word), vocabulary.meaning[word]) for word in vocabulary.words)
    table = markdown_table(("Word", "Meaning"), rows)
    return f"## {vocabulary.title}\n\n{vocabulary.question}\n\n{table}"


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of each file that follows from the core registry."""
    core = Registry.load()
    for entry in core:
        yield f"docs/reference/codes/{entry.code}.md", code_page(entry, core)
    yield "docs/reference/codes.md", index_page(core)
    yield "docs/reference/vocabulary.md", vocabulary_page()
    yield "spec/schemas/refusal.v1.schema.json", refusal_schema(core)
    yield "clients/go/reasoncodes/reason_codes.go", render_go(core)
    yield "spec/generated/sarif/reason_codes.sarif.json", render_sarif(core)

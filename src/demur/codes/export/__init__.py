"""The registry in other forms: documentation, schemas, and constants for other languages.

A form is a function from a registry to a text. The files of this repository
that follow from the core registry are written by the same functions.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from demur.codes.export.golang import golang
from demur.codes.export.listing import listing
from demur.codes.export.markdown import code_page, index_page, markdown
from demur.codes.export.refusal_schema import refusal_schema
from demur.codes.export.registry_schema import registry_schema
from demur.codes.export.sarif import sarif
from demur.codes.export.table import table
from demur.codes.export.typescript import typescript
from demur.codes.export.vocabulary_page import vocabulary_page
from demur.codes.registry import Registry

__all__ = ["FORMS", "generated_files"]

FORMS: Mapping[str, Callable[[Registry], str]] = MappingProxyType(
    {
        "csv": table,
        "go": golang,
        "json": listing,
        "jsonschema": refusal_schema,
        "markdown": markdown,
        "sarif": sarif,
        "typescript": typescript,
    }
)


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of each file that follows from the core registry."""
    core = Registry.load()
    for entry in core:
        yield f"docs/reference/codes/{entry.code}.md", code_page(entry, core)
    yield "docs/reference/codes.md", index_page(core)
    yield "docs/reference/vocabulary.md", vocabulary_page()
    yield "spec/schemas/reason_codes.v1.schema.json", registry_schema()
    yield "spec/schemas/refusal.v1.schema.json", refusal_schema(core)
    yield "spec/generated/typescript/reason_codes.ts", typescript(core)
    yield "spec/generated/go/reasoncodes/reason_codes.go", golang(core)
    yield "spec/generated/sarif/reason_codes.sarif.json", sarif(core)

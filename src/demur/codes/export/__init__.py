"""The registry in other forms: documentation, schemas, and constants for other languages.

A form is a function from a registry to a text. The files of this repository
that follow from the core registry are written by the same functions.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from demur.codes.export.golang import render_go
from demur.codes.export.listing import render_json
from demur.codes.export.markdown import code_page, index_page, render_markdown
from demur.codes.export.refusal_schema import refusal_schema
from demur.codes.export.registry_schema import registry_schema
from demur.codes.export.sarif import render_sarif
from demur.codes.export.table import render_csv
from demur.codes.export.typescript import render_typescript
from demur.codes.export.vocabulary_page import vocabulary_page
from demur.codes.registry import Registry

__all__ = ["EXPORT_FORMATS", "generated_files"]

EXPORT_FORMATS: Mapping[str, Callable[[Registry], str]] = MappingProxyType(
    {
        "csv": render_csv,
        "go": render_go,
        "json": render_json,
        "jsonschema": refusal_schema,
        "markdown": render_markdown,
        "sarif": render_sarif,
        "typescript": render_typescript,
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
    yield "spec/generated/typescript/reason_codes.ts", render_typescript(core)
    yield "spec/generated/go/reasoncodes/reason_codes.go", render_go(core)
    yield "spec/generated/sarif/reason_codes.sarif.json", render_sarif(core)

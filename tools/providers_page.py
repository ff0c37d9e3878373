"""The reference page of native signals, generated from the mappings."""

from collections.abc import Iterable, Iterator

from demur.codes.loading import registry_or_core
from demur.codes.markup import markdown_code, markdown_link, markdown_prose, markdown_table
from demur.providers.signals import (
    ANY_VALUE,
    UNSPECIFIED_CODE,
    NativeField,
    NativeValue,
    ProviderSystem,
    SignalOutcome,
    list_systems,
    load_system,
)

_COMMENT = "<!-- Generated from the mappings of providers; do not edit. -->"
_HEAD = ("Where", "Native value", "Code", "Class", "Decided", "Meaning")
_HARMLESS = "not a refusal"
_INTRO = (
    "Every signal by which a provider, framework or guard says that it refused, what it means "
    "here, and what merely looks like one. `normalize` reads them by structure; the value itself "
    "stays in `source.native`, as it came."
)
_READING = (
    "*Decided: no* means that nothing was judged: a guard broke, or looked at a part only. "
    "*Detected* means that something was seen and let pass. The row *anything else* says what "
    "becomes of a value that nobody has listed yet: one that stops content is never taken for "
    "success."
)
_KINDS = {"model": "Models and clouds", "framework": "Frameworks, guardrails and agent hosts"}
_UNLISTED = {
    "filtered": "any value of this field tells of a block",
    "policy_looking": "if it reads like a policy; otherwise it is no refusal",
    "not_a_refusal": "this field never tells of a block by itself",
}


def providers_page(mappings: Iterable[ProviderSystem]) -> str:
    """Return the page: a section for each system, models before frameworks."""
    listed = sorted(mappings, key=lambda mapping: mapping.title.casefold())
    fields = [field for mapping in listed for field in mapping.signals]
    values = sum(len(field.values) for field in fields)
    count = f"{len(listed)} systems, {len(fields)} signals, {values} known values."
    parts = [_COMMENT, "# Signals of providers", _INTRO, count, _READING]
    for kind, title in _KINDS.items():
        parts.append(f"## {title}")
        for mapping in listed:
            if mapping.kind == kind:
                parts += _system_section(mapping)
    return "\n\n".join(parts) + "\n"


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield the page of our own mappings."""
    yield "docs/reference/providers.md", providers_page(map(load_system, list_systems()))


def _system_section(mapping: ProviderSystem) -> Iterator[str]:
    yield f"### {_mapping_text(mapping.title)}"
    if mapping.packages:
        read = ", ".join(f"{name} {version}" for name, version in sorted(mapping.packages.items()))
        yield f"Read from {read}."
    yield from map(_mapping_text, mapping.notes)
    yield "\n".join(_field_description(field) for field in mapping.signals)
    yield markdown_table(_HEAD, (row for field in mapping.signals for row in _field_rows(field)))


def _field_description(field: NativeField) -> str:
    trap = f" *Trap:* {_mapping_text(field.trap)}" if field.trap else ""
    return f"- {markdown_code(field.path)} ({field.source}): {_mapping_text(field.meaning)}{trap}"


def _field_rows(field: NativeField) -> Iterator[tuple[str, ...]]:
    """Yield one row for all values with the same meaning, and one for unlisted values."""
    where = markdown_code(field.path)
    alike: dict[tuple[str, ...], list[str]] = {}
    for value in field.values:
        alike.setdefault(_meaning_cells(value), []).append(_native_cell(value.value))
    for meaning, natives in alike.items():
        yield where, ", ".join(natives), *meaning
    if all(value.value != ANY_VALUE for value in field.values):
        yield where, "anything else", *_unlisted_cells(field)


def _native_cell(value: str) -> str:
    if value == ANY_VALUE:
        return "any value"
    return markdown_code(value) if value.strip() else "(empty)"


def _meaning_cells(value: NativeValue) -> tuple[str, ...]:
    words = _mapping_text(value.meaning)
    if value.outcome is SignalOutcome.NOT_A_REFUSAL:
        return _HARMLESS, "", "", words
    named = _code_link(value.code) if value.code else ""
    if value.outcome is SignalOutcome.DETECT_ONLY:
        return f"detected: {named}" if named else "detected", "", "", words
    decided = "no" if value.outcome is SignalOutcome.NOT_JUDGED else "yes"
    return named, _class_cell(value.code), decided, words


def _unlisted_cells(field: NativeField) -> tuple[str, ...]:
    words = _UNLISTED[field.unknown]
    if field.unknown == "not_a_refusal":
        return _HARMLESS, "", "", words
    return _code_link(UNSPECIFIED_CODE), _class_cell(UNSPECIFIED_CODE), "yes", words


def _mapping_text(text: str) -> str:
    """Return a text of the mapping as Markdown: code in backticks, and links to codes."""
    return "".join(
        markdown_code(part) if index % 2 else _prose_part(part)
        for index, part in enumerate(text.split("`"))
    )


def _prose_part(part: str) -> str:
    """Return the text between code spans, with its outer spaces."""
    known = registry_or_core()
    words = markdown_prose(part, lambda name: f"codes/{name}.md" if name in known else None)
    before, after = part[:1].isspace(), part[-1:].isspace()
    return f"{' ' * before}{words}{' ' * (after and bool(words))}"


def _code_link(name: str) -> str:
    return markdown_link(name, f"codes/{name}.md")


def _class_cell(name: str | None) -> str:
    entry = registry_or_core().get(name or "")
    return markdown_code(entry.refusal_class) if entry is not None and entry.refusal_class else ""

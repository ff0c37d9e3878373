"""The reference page of native signals, generated from the mappings."""

from collections.abc import Iterable, Iterator

from demur.codes.default import registry_or_core
from demur.codes.export.markup import code, link, prose, table
from demur.providers.mapping import ANY, UNSPECIFIED, Field, System, Value, system, systems
from demur.providers.signal import Outcome

__all__ = ["generated_files", "providers_page"]

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


def providers_page(mappings: Iterable[System]) -> str:
    """Return the page: a section for each system, models before frameworks."""
    listed = sorted(mappings, key=lambda mapping: mapping.title.casefold())
    parts = [_COMMENT, "# Signals of providers", _INTRO, _count(listed), _READING]
    for kind, title in _KINDS.items():
        parts.append(f"## {title}")
        for mapping in listed:
            if mapping.kind == kind:
                parts += _section(mapping)
    return "\n\n".join(parts) + "\n"


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield the page of our own mappings."""
    yield "docs/reference/providers.md", providers_page(map(system, systems()))


def _count(listed: list[System]) -> str:
    signals = [field for mapping in listed for field in mapping.signals]
    values = sum(len(field.values) for field in signals)
    return f"{len(listed)} systems, {len(signals)} signals, {values} known values."


def _section(mapping: System) -> Iterator[str]:
    yield f"### {_words(mapping.title)}"
    if mapping.packages:
        read = ", ".join(f"{name} {version}" for name, version in sorted(mapping.packages.items()))
        yield f"Read from {read}."
    yield from map(_words, mapping.notes)
    yield "\n".join(_description(field) for field in mapping.signals)
    yield table(_HEAD, (row for field in mapping.signals for row in _rows(field)))


def _description(field: Field) -> str:
    trap = f" *Trap:* {_words(field.trap)}" if field.trap else ""
    return f"- {code(field.path)} ({field.source}): {_words(field.meaning)}{trap}"


def _rows(field: Field) -> Iterator[tuple[str, ...]]:
    """Yield one row for all values with the same meaning, and one for unlisted values."""
    where = code(field.path)
    alike: dict[tuple[str, ...], list[str]] = {}
    for value in field.values:
        alike.setdefault(_meaning(value), []).append(_native(value.value))
    for meaning, natives in alike.items():
        yield where, ", ".join(natives), *meaning
    if all(value.value != ANY for value in field.values):
        yield where, "anything else", *_unlisted(field)


def _native(value: str) -> str:
    if value == ANY:
        return "any value"
    return code(value) if value.strip() else "(empty)"


def _meaning(value: Value) -> tuple[str, ...]:
    words = _words(value.meaning)
    if value.outcome is Outcome.NOT_A_REFUSAL:
        return _HARMLESS, "", "", words
    named = _link(value.code) if value.code else ""
    if value.outcome is Outcome.DETECT_ONLY:
        return f"detected: {named}" if named else "detected", "", "", words
    decided = "no" if value.outcome is Outcome.NOT_JUDGED else "yes"
    return named, _class(value.code), decided, words


def _unlisted(field: Field) -> tuple[str, ...]:
    words = _UNLISTED[field.unknown]
    if field.unknown == "not_a_refusal":
        return _HARMLESS, "", "", words
    return _link(UNSPECIFIED), _class(UNSPECIFIED), "yes", words


def _words(text: str) -> str:
    """Return a text of the mapping as Markdown: code in backticks, and links to codes."""
    return "".join(
        code(part) if index % 2 else _prose(part) for index, part in enumerate(text.split("`"))
    )


def _prose(part: str) -> str:
    """Return the text between code spans, with its outer spaces."""
    words = prose(part, _address)
    before, after = part[:1].isspace(), part[-1:].isspace()
    return f"{' ' * before}{words}{' ' * (after and bool(words))}"


def _address(name: str) -> str | None:
    return f"codes/{name}.md" if name in registry_or_core() else None


def _link(name: str) -> str:
    return link(name, f"codes/{name}.md")


def _class(name: str | None) -> str:
    entry = registry_or_core().get(name or "")
    return code(entry.refusal_class) if entry is not None and entry.refusal_class else ""

"""The registry as source code: Go and TypeScript constants, and names that are identifiers."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from demur.codes.entry import Entry
from demur.codes.markup import collapse_to_line
from demur.codes.meaning import (
    ADVICE_MEANING,
    CLASS_MEANING,
    RETRY_SCOPE_MEANING,
    SEVERITY_MEANING,
    VOCABULARIES,
    describe_replacement,
)
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope, Severity

_BREAK = re.compile(r"[^A-Z0-9]+")


def constant_name(code: str) -> str:
    """Return the name of a constant: `ACME_COM_KYC_EXPIRED`."""
    name = re.sub(r"[^A-Z0-9_]", "_", code.upper())
    return f"_{name}" if name[0].isdigit() else name


def camel_name(code: str) -> str:
    """Return the name of an exported constant: `AcmeComKycExpired`."""
    name = "".join(word.capitalize() for word in _BREAK.split(code.upper()))
    return f"X{name}" if name[0].isdigit() else name


def distinct_names(
    codes: Iterable[str], spell: Callable[[str], str], reserved: Iterable[str] = ()
) -> Mapping[str, str]:
    """Return a name for each code; a name that is already used gets a number appended."""
    # INVARIANT: no two codes share a name, and no code has a reserved one.
    taken = set(reserved)
    names: dict[str, str] = {}
    for code in codes:
        name, number = spell(code), 2
        while name in taken:
            name, number = f"{spell(code)}_{number}", number + 1
        taken.add(name)
        names[code] = name
    return names


_FOLDER = Path(__file__).parent
_GO_WORDS: tuple[tuple[str, type[StrEnum], Mapping[Any, str]], ...] = (
    ("Class", RefusalClass, CLASS_MEANING),
    ("Advice", Advice, ADVICE_MEANING),
    ("Scope", RetryScope, RETRY_SCOPE_MEANING),
    ("Severity", Severity, SEVERITY_MEANING),
)
_SHOWN = ("title", "refusal_class", "advice", "retry_scope", "severity", "decided", "deprecated")
_TS_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


def _fill_template(language: str, **parts: str) -> str:
    text = (_FOLDER / f"export_{language}.txt").read_text(encoding="utf-8")
    # One pass: text of the registry may hold a mark of the template.
    return re.sub(r"@([A-Z]+)@", lambda mark: parts[mark[1].lower()], text)


def render_go(registry: Registry) -> str:
    """Return package `reasoncodes`, formatted as gofmt does."""
    words = {_go_name(kind, word) for kind, members, _ in _GO_WORDS for word in members}
    kinds = {"Code", "Info", "Lookup", "All", "Registry", *(kind for kind, *_ in _GO_WORDS)}
    names = distinct_names((entry.code for entry in registry), camel_name, kinds | words)
    rows = (", ".join(_go_fields(entry, names)) for entry in registry)
    return _fill_template(
        "go",
        registry=_go_string(registry.label),
        words="".join(_go_word_constants(*row) for row in _GO_WORDS),
        codes="\n".join(_go_constant(entry, names[entry.code]) for entry in registry),
        table="".join(f"\t{{{row}}},\n" for row in rows),
    )


def _go_string(value: str) -> str:
    def escape(character: str) -> str:
        if character in '"\\':
            return f"\\{character}"
        return character if character.isprintable() else f"\\U{ord(character):08x}"

    return f'"{"".join(map(escape, value))}"'


def _go_name(kind: str, word: str) -> str:
    return kind + camel_name(word)


def _go_word_constants(kind: str, members: Iterable[str], meaning: Mapping[Any, str]) -> str:
    names = ((word, _go_name(kind, word)) for word in members)
    blocks = (f"\t// {meaning[w]}\n\t{n} {kind} = {_go_string(w)}\n" for w, n in names)
    return "const (\n" + "\n".join(blocks) + ")\n\n"


def _go_constant(entry: Entry, name: str) -> str:
    comment = f"\t// {collapse_to_line(entry.description)}\n"
    if notice := describe_replacement(entry):
        comment += f"\t//\n\t// Deprecated: {collapse_to_line(notice)}\n"
    return f"{comment}\t{name} Code = {_go_string(entry.code)}\n"


def _go_fields(entry: Entry, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the fields of an `Info` that are not empty."""
    yield f"Code: {names[entry.code]}"
    yield f"Title: {_go_string(entry.title)}"
    for field, kind, word in (
        ("Class", "Class", entry.refusal_class),
        ("Advice", "Advice", entry.advice),
        ("RetryScope", "Scope", entry.retry_scope),
        ("Severity", "Severity", entry.severity),
    ):
        if word:
            yield f"{field}: {_go_name(kind, word)}"
    for field, holds in (("Decided", entry.decided), ("Deprecated", entry.deprecated)):
        if holds:
            yield f"{field}: true"
    for field, other in (("Parent", entry.parent), ("Replacement", entry.replacement)):
        if other:
            yield f"{field}: {names[other]}"


def render_typescript(registry: Registry) -> str:
    """Return a module that has no imports and needs only ES5."""
    names = distinct_names((entry.code for entry in registry), constant_name)
    unions = []
    for _, kind, question, _ in VOCABULARIES:
        members = "".join(f"\n  | {_ts_literal(word)}" for word in kind)
        unions.append(f"/** {question} */\nexport type {kind.__name__} ={members};\n")
    return _fill_template(
        "typescript",
        registry=_ts_literal(registry.label),
        words="\n".join(unions),
        codes="".join(map(_ts_entry, registry)),
        names="".join(f"  {name}: {_ts_literal(code)},\n" for code, name in names.items()),
    )


def _ts_literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _ts_entry(entry: Entry) -> str:
    key = entry.code if _TS_IDENTIFIER.match(entry.code) else _ts_literal(entry.code)
    fields = ", ".join(f"{name}: {_ts_literal(getattr(entry, name))}" for name in _SHOWN)
    return f"{_ts_comment(entry)}  {key}: {{ {fields} }},\n"


def _ts_comment(entry: Entry) -> str:
    notice = describe_replacement(entry)
    lines = [entry.description, *([f"@deprecated {notice}"] if notice else [])]
    # Keep text from ending the comment.
    words = [collapse_to_line(line).replace("*/", "* /") for line in lines]
    if len(words) == 1:
        return f"  /** {words[0]} */\n"
    return "  /**\n" + "".join(f"   * {line}\n" for line in words) + "   */\n"

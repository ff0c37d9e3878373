"""The registry as source code: Go and TypeScript constants, and names that are identifiers."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from demur.codes.entry import Entry
from demur.codes.markup import collapse_to_line
from demur.codes.meaning import VOCABULARIES, Vocabulary, describe_replacement
from demur.codes.registry import Registry, rank_phrases
from demur.codes.vocabulary import (
    Advice,
    DecisionOutput,
    RefusalClass,
    RetryScope,
    Severity,
    Verdict,
)

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
_GO_KINDS: Mapping[type[StrEnum], str] = {
    RefusalClass: "Class",
    Advice: "Advice",
    RetryScope: "Scope",
    Severity: "Severity",
    Verdict: "Verdict",
    DecisionOutput: "Output",
}
# The other exported names of the package: of the template, and of clients/go.
_GO_NAMES = (
    *("Code", "Info", "Lookup", "All", "Registry", "Refusal", "Parse", "Format", "Classify"),
    *("Classification", "ErrUnknownCode", "ErrInconsistent", "ErrInvalid"),
)
_LAST_FOLDED = 0x1F000
_SHOWN = (
    "title",
    "refusal_class",
    "advice",
    "retry_scope",
    "severity",
    "decided",
    "deprecated",
    "effect",
    "stability",
    "parent",
    "replacement",
    "obligations",
)
_TS_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


def _fill_template(language: str, **parts: str) -> str:
    text = (_FOLDER / f"export_{language}.txt").read_text(encoding="utf-8")
    # One pass: text of the registry may hold a mark of the template.
    return re.sub(r"@([A-Z]+)@", lambda mark: parts[mark[1].lower()], text)


def render_go(registry: Registry) -> str:
    """Return package `reasoncodes`, formatted as gofmt does."""
    words = [_go_name(kind, word) for members, kind in _GO_KINDS.items() for word in members]
    reserved = (*_GO_NAMES, *_GO_KINDS.values(), *words)
    names = distinct_names((entry.code for entry in registry), camel_name, reserved)
    rows = (", ".join(_go_fields(entry, names)) for entry in registry)
    return _fill_template(
        "go",
        registry=_go_string(registry.label),
        words="".join(_go_word_constants(vocabulary) for vocabulary in VOCABULARIES),
        codes="\n".join(_go_constant(entry, names[entry.code]) for entry in registry),
        table="".join(f"\t{{{row}}},\n" for row in rows),
        phrases="".join(
            f"\t{{{_go_string(phrase)}, {names[code]}}},\n"
            for phrase, code in rank_phrases(registry.phrases)
        ),
        foldings="".join(
            f"\t{_go_string(letter)}, {_go_string(folded)},\n"
            for letter, folded in _list_foldings("".join(registry.phrases))
        ),
    )


def _list_foldings(letters: str) -> Iterator[tuple[str, str]]:
    """Yield each character that casefolds to ASCII or to one of `letters`, with what it becomes."""
    wanted = frozenset(letters)
    for letter in map(chr, range(_LAST_FOLDED)):
        folded = letter.casefold()
        if folded != letter and any(one.isascii() or one in wanted for one in folded):
            yield letter, folded


def _go_string(value: str) -> str:
    def escape(character: str) -> str:
        if character in '"\\':
            return f"\\{character}"
        return character if character.isprintable() else f"\\U{ord(character):08x}"

    return f'"{"".join(map(escape, value))}"'


def _go_name(kind: str, word: str) -> str:
    return kind + camel_name(word)


def _go_word_constants(vocabulary: Vocabulary) -> str:
    kind = _GO_KINDS.get(vocabulary.words)
    if kind is None:
        return ""
    names = ((word, _go_name(kind, word)) for word in vocabulary.words)
    meaning = vocabulary.meaning
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
        phrases="".join(
            f"  {_ts_literal(phrase)}: {_ts_literal(code)},\n"
            for phrase, code in sorted(registry.phrases.items())
        ),
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

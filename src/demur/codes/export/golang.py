"""The registry as Go: constants with documentation, and a table to look codes up in."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from demur.codes.entry import Entry
from demur.codes.export.naming import camel_name, distinct_names
from demur.codes.export.text import plain_line
from demur.codes.meaning import (
    ADVICE_MEANING,
    CLASS_MEANING,
    RETRY_SCOPE_MEANING,
    SEVERITY_MEANING,
    instead,
)
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope, Severity

__all__ = ["golang"]

# Go's tools recognise a generated file by exactly this first line.
_HEAD = """\
// Code generated from the registry of reason codes; DO NOT EDIT.

// Package reasoncodes holds the reason codes of refusals and what is known about each.
package reasoncodes

"""

_TYPES = """\
// Code is a reason code: why something was refused.
type Code string

// Class says whether a refusal may be lifted.
type Class string

// Advice is the next step a caller can take.
type Advice string

// Scope says how far a refusal reaches.
type Scope string

// Severity says how much attention a code deserves.
type Severity string

// Info is what the registry says about one code.
type Info struct {
	Code  Code
	Title string
	// Class, Advice and RetryScope are empty for a code that allows.
	Class      Class
	Advice     Advice
	RetryScope Scope
	Severity   Severity
	// Decided is false if nothing was judged: a check failed, and the action must not run.
	Decided    bool
	Deprecated bool
	// Parent and Replacement are empty where there is none.
	Parent      Code
	Replacement Code
}

"""

_FUNCTIONS = """
var infos = func() map[string]Info {
	byCode := make(map[string]Info, len(all))
	for _, info := range all {
		byCode[string(info.Code)] = info
	}
	return byCode
}()

// Lookup returns what the registry says about a code, and whether it knows the code.
func Lookup(code string) (Info, bool) {
	info, known := infos[code]
	return info, known
}

// All returns what the registry says about every code, in the order of the registry.
func All() []Info {
	return append([]Info(nil), all...)
}
"""

_WORDS: tuple[tuple[str, type[StrEnum], Mapping[Any, str]], ...] = (
    ("Class", RefusalClass, CLASS_MEANING),
    ("Advice", Advice, ADVICE_MEANING),
    ("Scope", RetryScope, RETRY_SCOPE_MEANING),
    ("Severity", Severity, SEVERITY_MEANING),
)


def golang(registry: Registry) -> str:
    """Return package `reasoncodes`, formatted as gofmt does."""
    words = {_word_name(kind, word) for kind, members, _ in _WORDS for word in members}
    kinds = {"Code", "Info", "Lookup", "All", "Registry", *(kind for kind, *_ in _WORDS)}
    names = distinct_names((entry.code for entry in registry), camel_name, kinds | words)
    return "".join(
        (
            _HEAD,
            "// Registry is the registry this was generated from.\n",
            f"const Registry = {_text(registry.label)}\n\n",
            _TYPES,
            *(_words(*row) for row in _WORDS),
            _constants(registry, names),
            _table(registry, names),
            _FUNCTIONS,
        )
    )


def _text(value: str) -> str:
    return f'"{"".join(map(_character, value))}"'


def _character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _word_name(kind: str, word: str) -> str:
    return kind + camel_name(word)


def _words(kind: str, members: Iterable[str], meaning: Mapping[Any, str]) -> str:
    blocks = (
        f"\t// {meaning[word]}\n\t{_word_name(kind, word)} {kind} = {_text(word)}\n"
        for word in members
    )
    return "const (\n" + "\n".join(blocks) + ")\n\n"


def _constants(registry: Registry, names: Mapping[str, str]) -> str:
    blocks = (_constant(entry, names[entry.code]) for entry in registry)
    return "// The reason codes.\nconst (\n" + "\n".join(blocks) + ")\n\n"


def _constant(entry: Entry, name: str) -> str:
    comment = f"\t// {plain_line(entry.description)}\n"
    if notice := instead(entry):
        comment += f"\t//\n\t// Deprecated: {plain_line(notice)}\n"
    return f"{comment}\t{name} Code = {_text(entry.code)}\n"


def _table(registry: Registry, names: Mapping[str, str]) -> str:
    rows = (", ".join(_fields(entry, names)) for entry in registry)
    return "var all = []Info{\n" + "".join(f"\t{{{row}}},\n" for row in rows) + "}\n"


def _fields(entry: Entry, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the fields of an `Info` that are not empty."""
    yield f"Code: {names[entry.code]}"
    yield f"Title: {_text(entry.title)}"
    for field, kind, word in (
        ("Class", "Class", entry.refusal_class),
        ("Advice", "Advice", entry.advice),
        ("RetryScope", "Scope", entry.retry_scope),
        ("Severity", "Severity", entry.severity),
    ):
        if word:
            yield f"{field}: {_word_name(kind, word)}"
    for field, holds in (("Decided", entry.decided), ("Deprecated", entry.deprecated)):
        if holds:
            yield f"{field}: true"
    for field, other in (("Parent", entry.parent), ("Replacement", entry.replacement)):
        if other:
            yield f"{field}: {names[other]}"

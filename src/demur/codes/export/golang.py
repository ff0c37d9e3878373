"""The registry as Go: constants with documentation, and a table to look codes up in."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from demur.codes.entry import Entry
from demur.codes.export.naming import camel_name, distinct_names
from demur.codes.export.text import single_line
from demur.codes.meaning import (
    ADVICE_MEANING,
    CLASS_MEANING,
    RETRY_SCOPE_MEANING,
    SEVERITY_MEANING,
    describe_replacement,
)
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope, Severity

__all__ = ["render_go"]

# Go's tools recognise a generated file by exactly this first line.
_GO_HEAD = """\
// Code generated from the registry of reason codes; DO NOT EDIT.

// Package reasoncodes holds the reason codes of refusals and what is known about each.
package reasoncodes

"""

_GO_TYPES = """\
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

_GO_FUNCTIONS = """
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

_GO_WORDS: tuple[tuple[str, type[StrEnum], Mapping[Any, str]], ...] = (
    ("Class", RefusalClass, CLASS_MEANING),
    ("Advice", Advice, ADVICE_MEANING),
    ("Scope", RetryScope, RETRY_SCOPE_MEANING),
    ("Severity", Severity, SEVERITY_MEANING),
)


def render_go(registry: Registry) -> str:
    """Return package `reasoncodes`, formatted as gofmt does."""
    words = {_go_word_name(kind, word) for kind, members, _ in _GO_WORDS for word in members}
    kinds = {"Code", "Info", "Lookup", "All", "Registry", *(kind for kind, *_ in _GO_WORDS)}
    names = distinct_names((entry.code for entry in registry), camel_name, kinds | words)
    return "".join(
        (
            _GO_HEAD,
            "// Registry is the registry this was generated from.\n",
            f"const Registry = {_go_string(registry.label)}\n\n",
            _GO_TYPES,
            *(_go_word_constants(*row) for row in _GO_WORDS),
            _go_code_constants(registry, names),
            _go_table(registry, names),
            _GO_FUNCTIONS,
        )
    )


def _go_string(value: str) -> str:
    return f'"{"".join(map(_go_character, value))}"'


def _go_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _go_word_name(kind: str, word: str) -> str:
    return kind + camel_name(word)


def _go_word_constants(kind: str, members: Iterable[str], meaning: Mapping[Any, str]) -> str:
    blocks = (
        f"\t// {meaning[word]}\n\t{_go_word_name(kind, word)} {kind} = {_go_string(word)}\n"
        for word in members
    )
    return "const (\n" + "\n".join(blocks) + ")\n\n"


def _go_code_constants(registry: Registry, names: Mapping[str, str]) -> str:
    blocks = (_go_constant(entry, names[entry.code]) for entry in registry)
    return "// The reason codes.\nconst (\n" + "\n".join(blocks) + ")\n\n"


def _go_constant(entry: Entry, name: str) -> str:
    comment = f"\t// {single_line(entry.description)}\n"
    if notice := describe_replacement(entry):
        comment += f"\t//\n\t// Deprecated: {single_line(notice)}\n"
    return f"{comment}\t{name} Code = {_go_string(entry.code)}\n"


def _go_table(registry: Registry, names: Mapping[str, str]) -> str:
    rows = (", ".join(_go_fields(entry, names)) for entry in registry)
    return "var all = []Info{\n" + "".join(f"\t{{{row}}},\n" for row in rows) + "}\n"


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
            yield f"{field}: {_go_word_name(kind, word)}"
    for field, holds in (("Decided", entry.decided), ("Deprecated", entry.deprecated)):
        if holds:
            yield f"{field}: true"
    for field, other in (("Parent", entry.parent), ("Replacement", entry.replacement)):
        if other:
            yield f"{field}: {names[other]}"

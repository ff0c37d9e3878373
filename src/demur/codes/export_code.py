"""The registry as source code: Go and TypeScript constants, and names that are identifiers."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from demur.codes.entry import Entry
from demur.codes.markup import GENERATED_NOTICE, single_line
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


_TS_FIELDS = (
    "title",
    "refusal_class",
    "advice",
    "retry_scope",
    "severity",
    "decided",
    "deprecated",
)
_TS_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)

_TS_TYPES = """\
/** What the registry says about one reason code. */
export interface ReasonCodeInfo {
  readonly title: string;
  readonly refusal_class: RefusalClass | null;
  readonly advice: Advice | null;
  readonly retry_scope: RetryScope | null;
  readonly severity: Severity;
  /** False if nothing was judged: a check failed, and the action must not run. */
  readonly decided: boolean;
  readonly deprecated: boolean;
}
"""

_TS_FUNCTIONS = """\
/** A reason code of this registry. */
export type ReasonCode = keyof typeof REASON_CODES;

/** A reason code of this registry, or one that it does not know; known ones are completed. */
export type AnyReasonCode = ReasonCode | (string & {});

/** Tells whether a text is a reason code of this registry. */
export function isReasonCode(value: string): value is ReasonCode {
  return Object.prototype.hasOwnProperty.call(REASON_CODES, value);
}

/** Returns what the registry says about a code, or undefined if it does not know the code. */
export function reasonCodeInfo(code: ReasonCode): ReasonCodeInfo;
export function reasonCodeInfo(code: AnyReasonCode): ReasonCodeInfo | undefined;
export function reasonCodeInfo(code: string): ReasonCodeInfo | undefined {
  return isReasonCode(code) ? REASON_CODES[code] : undefined;
}
"""


def render_typescript(registry: Registry) -> str:
    """Return a module that has no imports and needs only ES5."""
    parts = (
        f"// {GENERATED_NOTICE}\n",
        f"/** The registry this was generated from. */\n{_ts_constant('REGISTRY', registry.label)}",
        *(_ts_union(words.__name__, question, words) for _, words, question, _ in VOCABULARIES),
        _TS_TYPES,
        "".join(_ts_codes(registry)),
        "".join(_ts_names(registry)),
        _TS_FUNCTIONS,
    )
    return "\n".join(parts)


def _ts_literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _ts_constant(name: str, value: str) -> str:
    return f"export const {name} = {_ts_literal(value)};\n"


def _ts_union(name: str, question: str, words: Iterable[str]) -> str:
    members = "".join(f"\n  | {_ts_literal(word)}" for word in words)
    return f"/** {question} */\nexport type {name} ={members};\n"


def _ts_codes(registry: Registry) -> Iterator[str]:
    yield "/** Every reason code. Organisations' codes stand under `domain/CODE`. */\n"
    yield "export const REASON_CODES = {\n"
    for entry in registry:
        key = entry.code if _TS_IDENTIFIER.match(entry.code) else _ts_literal(entry.code)
        fields = ", ".join(f"{name}: {_ts_literal(getattr(entry, name))}" for name in _TS_FIELDS)
        yield f"{_ts_comment(entry)}  {key}: {{ {fields} }},\n"
    yield "} as const;\n"


def _ts_comment(entry: Entry) -> str:
    notice = describe_replacement(entry)
    lines = [entry.description, *([f"@deprecated {notice}"] if notice else [])]
    # Keep text from ending the comment.
    words = [single_line(line).replace("*/", "* /") for line in lines]
    if len(words) == 1:
        return f"  /** {words[0]} */\n"
    return "  /**\n" + "".join(f"   * {line}\n" for line in words) + "   */\n"


def _ts_names(registry: Registry) -> Iterator[str]:
    names = distinct_names((entry.code for entry in registry), constant_name)
    yield "/** The codes under names that are identifiers. */\n"
    yield "export const Codes = {\n"
    yield from (f"  {name}: {_ts_literal(code)},\n" for code, name in names.items())
    yield "} as const;\n"

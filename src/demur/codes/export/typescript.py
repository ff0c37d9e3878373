"""The registry as TypeScript: one constant object, and types that follow from it."""

import json
import re
from collections.abc import Iterable, Iterator

from demur.codes.entry import Entry
from demur.codes.export.naming import constant_name, distinct_names
from demur.codes.export.text import GENERATED_NOTICE, single_line
from demur.codes.meaning import VOCABULARIES, describe_replacement
from demur.codes.registry import Registry

__all__ = ["render_typescript"]

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

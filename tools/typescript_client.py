"""Write the codes and wire types of the TypeScript client, and the cases of the spec as JSON."""

import json
import re
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Any

import yaml

from demur.codes.export_code import render_typescript
from demur.codes.meaning import VOCABULARIES
from demur.codes.registry import Registry
from demur.enforce.result import refusal_text
from demur.model.next_steps import next_step
from demur.model.refusal import Refusal
from demur.service.routes import ROUTES, build_openapi

ROOT = Path(__file__).resolve().parent.parent
SOURCES = "clients/typescript/src"
CASES = "spec/generated/cases.json"
_CODE_FIELD = re.compile(r"(?:code|parent|leading_code|codes|\w+_codes)\Z")
# The bodies that the client sends, and the answers that it reads.
_BODIES = (
    *("Decide", "Resolve", "EnforcePrompt", "EnforceAnswer", "EnforceModel", "EnforceToolCall"),
    *("EnforceToolResult", "EnforceRetrieval", "EnforceCompaction", "EnforceStream"),
    *("Detect", "ParseInput", "FormatInput"),
)
_ANSWERS = (
    *("Problem", "Refusal", "Enforced", "AnswerChunk", "DecisionRecord"),
    *("RefusalDetection", "ParsedText", "RefusalLine"),
)
# Answers leave these out of what they hold if they have their default.
_OMITS_DEFAULTS = ("RefusalSource", "InvalidField", "Determinism", "RecordedGrant", "IgnoredGrant")
_HEAD = """\
// Generated from the routes of the service; do not edit.

import type {{
  AnyReasonCode,
{words}
}} from "./reason_codes.ts";

/** A JSON object of any form. */
export type JsonObject = {{ readonly [name: string]: unknown }};
"""
_WORDS = """
/** The words of a refusal if nothing was judged: for a model, and for a person. */
export const UNDECIDED_WORDS = {words} as const;
"""


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of each generated file."""
    core = Registry.load()
    yield f"{SOURCES}/reason_codes.ts", render_typescript(core)
    yield f"{SOURCES}/wire.ts", render_wire(core)
    yield CASES, render_cases()


def render_cases() -> str:
    """Return `spec/cases` as one JSON document, for languages without a YAML reader."""
    paths = sorted((ROOT / "spec/cases").glob("*.yaml"))
    cases = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}
    rows = ",\n".join(
        f'"{stem}": [\n' + ",\n".join(json.dumps(case) for case in _list_cases(found)) + "\n]"
        for stem, found in cases.items()
    )
    return f"{{\n{rows}\n}}\n"


def _list_cases(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def render_wire(registry: Registry) -> str:
    """Return the types of the service's bodies and answers, and the words of undecided refusals."""
    schemas: Mapping[str, Any] = build_openapi(ROUTES)["components"]["schemas"]
    words = {one.words.__name__ for one in VOCABULARIES}
    needed: dict[str, None] = {}
    for name in (*_ANSWERS, *_BODIES):
        _collect_types(name, schemas, needed)
    imported = "\n".join(f"  {name}," for name in sorted(set(needed) & words))
    sent: dict[str, None] = {}
    for name in _BODIES:
        _collect_types(name, schemas, sent)
    # A body may leave out what has a default; an answer holds it.
    partial = {*sent, *_OMITS_DEFAULTS}
    types = (
        _render_type(name, schemas[name], is_partial=name in partial)
        for name in needed
        if name not in words
    )
    undecided = json.dumps(_undecided_words(registry), indent=2, ensure_ascii=False)
    return _HEAD.format(words=imported) + "".join(types) + _WORDS.format(words=undecided)


def _undecided_words(registry: Registry) -> dict[str, dict[str, str]]:
    codes = (entry.code for entry in registry if not entry.decided)
    refusals = (Refusal.from_code(code, registry=registry) for code in codes)
    return {
        one.code: {"message": next_step(one).sentence, "text": refusal_text(one)}
        for one in refusals
    }


def _collect_types(name: str, schemas: Mapping[str, Any], needed: dict[str, None]) -> None:
    if name in needed:
        return
    needed[name] = None
    for other in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schemas[name])):
        _collect_types(other, schemas, needed)


def _render_type(name: str, schema: Mapping[str, Any], *, is_partial: bool) -> str:
    if "enum" in schema:
        members = "".join(f"\n  | {json.dumps(one)}" for one in schema["enum"])
        return f"\nexport type {name} ={members};\n"
    lines = [f"export interface {name} {{"]
    for field, kind in schema["properties"].items():
        # Parts of a record that may be erased are null then.
        is_set = "default" in kind or name == "DecisionRecord"
        always = field in schema.get("required", ()) or (is_set and not is_partial)
        if "description" in kind:
            lines.append(f"  /** {kind['description']} */")
        lines.append(f"  readonly {field}{'' if always else '?'}: {_field_type(field, kind)};")
    comment = _render_comment(schema.get("description") or schema.get("title", name))
    return "\n" + comment + "\n".join([*lines, "}"]) + "\n"


def _render_comment(description: str) -> str:
    lines = cleandoc(description).splitlines()
    if len(lines) == 1:
        return f"/** {lines[0]} */\n"
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def _field_type(field: str, kind: Mapping[str, Any]) -> str:
    written = _write_type(kind)
    return re.sub(r"\bstring\b", "AnyReasonCode", written) if _CODE_FIELD.match(field) else written


_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def _write_type(kind: Mapping[str, Any]) -> str:
    if "$ref" in kind:
        return str(kind["$ref"]).rpartition("/")[2]
    if "enum" in kind:
        return " | ".join(map(json.dumps, kind["enum"]))
    written = kind.get("type")
    if "anyOf" in kind or isinstance(written, list):
        choices = kind.get("anyOf") or [{**kind, "type": one} for one in written or ()]
        kinds = [one for part in choices for one in part.get("anyOf", [part])]
        return " | ".join(dict.fromkeys(map(_write_type, kinds)))
    if written == "array":
        item = _write_type(kind.get("items", {}))
        return f"readonly ({item})[]" if " " in item else f"readonly {item}[]"
    if written == "object":
        values = kind.get("additionalProperties")
        return f"{{ readonly [name: string]: {_write_type(values)} }}" if values else "JsonObject"
    return {**_PLAIN, "null": "null"}.get(str(written), "unknown")

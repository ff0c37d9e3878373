"""A manifest of pinned tools, and how a tool differs from its pin.

A server can change a tool after somebody approved it. The manifest keeps the digests of
description and schema, so that a change is seen before the tool is used. The schema itself may
be kept as well; then arguments are checked against it even where the host does not show the
definition again.

Two names are alike if they have one skeleton (case, separators and look-alike letters set
aside), or if a typing mistake leads from one to the other. Short names are compared by skeleton
alone: `get` and `set` are one letter apart and mean different things.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Literal, Self

import msgspec
import re2

from demur.canonical import MAX_DEPTH, canonicalise, digest
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.model.finding import Action, Finding, Span
from demur.text.fold import fold_text

_MAX_DETAIL = 120
_SHOWN = 40
_KEPT = 100


def tool_finding(
    tool: str,
    code: str,
    rule: str,
    detail: str,
    facts: Mapping[str, Any],
    *,
    action: Action = Action.BLOCK,
    span: Span | None = None,
) -> Finding:
    """Return a finding of the surface `tool_call` about `tool`."""
    return Finding(
        code=code,
        surface=Surface.TOOL_CALL,
        span=span,
        detail=detail[:_MAX_DETAIL],
        evidence={"rule": rule, "tool": clip_evidence(tool), **facts},
        action=action,
    )


def clip_evidence(text: str) -> str:
    """Return `text` cut to a length for evidence."""
    return text[:_KEPT]


def shorten_name(name: str) -> str:
    """Return `name` cut and made printable for one line."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name[:_SHOWN])
    return shown if len(name) <= _SHOWN else f"{shown[:-1]}…"


# Digits that look like letters. Look-alike letters of other alphabets are already folded.
_DIGITS = str.maketrans("01358", "olesb", "_-./: ")
_MAX_COMPARED = 256
# From this length on, one typing mistake makes a look-alike, and from the next on, two.
_ONE_OFF = 6
_TWO_OFF = 12


def name_skeleton(name: str) -> str:
    """Return `name` without case, separators and look-alike letters."""
    plain = fold_text(name[:_MAX_COMPARED]).data.decode("latin-1").translate(_DIGITS)
    return plain.replace("rn", "m").replace("vv", "w").replace("i", "l")


def find_look_alike(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` could be taken for, or None; never `name` itself."""
    bones = name_skeleton(name)
    others = [(other, name_skeleton(other)) for other in known if other != name]
    same = (other for other, theirs in others if theirs == bones)
    near = (other for other, theirs in others if _is_typing_slip(bones, theirs))
    return next(chain(same, near), None)


def _is_typing_slip(one: str, other: str) -> bool:
    shorter = min(len(one), len(other))
    allowed = (shorter >= _ONE_OFF) + (shorter >= _TWO_OFF)
    near = 0 < allowed >= abs(len(one) - len(other))
    return near and _edit_distance(one, other) <= allowed


def _edit_distance(one: str, other: str) -> int:
    """Return how many letters to change, add, drop or swap with their neighbour."""
    two_before: list[int] = []
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        two_before, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if two_before and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, two_before[j - 2] + 1)
            row.append(cost)
    return row[-1]


MAX_NAME_LENGTH = 256
_DIGEST = re2.compile(r"sha256:[0-9a-f]{64}")


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server presents it: name, description, and JSON schema of its arguments."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        for field in ("name", "description"):
            if not isinstance(getattr(self, field), str):
                raise InputTypeError.wrong_type(field, "a string", getattr(self, field))
        if not isinstance(self.schema, Mapping):
            raise InputTypeError.wrong_type("schema", "an object", self.schema)


class PinnedTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The digests of a pinned tool, and its schema if it was kept."""

    name: str
    source: str
    schema_digest: str
    description_digest: str
    schema: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > MAX_NAME_LENGTH or not self.name.isprintable():
            problem = f"the name of a tool is 1 to {MAX_NAME_LENGTH} printable characters"
            raise InputError(problem, where=self.name[:40] or None)
        if len(self.source) > MAX_NAME_LENGTH:
            raise InputError("the source of a tool is too long", where=self.name)
        for field in ("schema_digest", "description_digest"):
            if not _DIGEST.fullmatch(getattr(self, field)):
                help_text = "`pin_tool` makes them"
                raise InputError(f"`{field}` is no SHA-256 digest", where=self.name, help=help_text)
        if self.schema is not None and digest(normalize_schema(self.schema)) != self.schema_digest:
            raise InputError("the kept schema is not the pinned one", where=self.name)


class ToolManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pinned tools. A name may stand once for each source."""

    tools: tuple[PinnedTool, ...] = ()
    schema_version: Literal["manifest.v1"] = "manifest.v1"

    def __post_init__(self) -> None:
        pairs = set()
        for tool in self.tools:
            if (tool.name, tool.source) in pairs:
                raise InputError(f"the tool appears twice for `{tool.source}`", where=tool.name)
            pairs.add((tool.name, tool.source))

    def tools_named(self, name: str) -> tuple[PinnedTool, ...]:
        """Return the tools of this name, one for each source that was pinned."""
        return tuple(tool for tool in self.tools if tool.name == name)

    def with_tools(self, tools: Iterable[PinnedTool]) -> "ToolManifest":
        """Return a manifest that pins `tools` too; one of the same name and source is replaced."""
        by_key = {(tool.name, tool.source): tool for tool in (*self.tools, *tools)}
        return ToolManifest(tools=tuple(by_key.values()))

    def to_json(self) -> bytes:
        """Return the manifest as JSON, for a file under version control."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=2) + b"\n"

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Return the manifest written in `text`.

        Raises:
            InputError: It is no manifest, or one that was changed by hand.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"not a manifest: {reason}", help="`to_json` writes one") from error


def pin_tool(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    source: str = "",
    *,
    keep_schema: bool = True,
) -> PinnedTool:
    """Return the pin of a tool as it is now. `source` names the server that offers it.

    Raises:
        InputError: The name is empty or unprintable, or the schema has no canonical form.
    """
    tool = ToolDefinition(name=name, description=description, schema=schema)
    if not isinstance(source, str):
        raise InputTypeError.wrong_type("source", "a string", source)
    plain = normalize_schema(tool.schema)
    return PinnedTool(
        name=name,
        source=source,
        schema_digest=digest(plain),
        description_digest=digest(description),
        schema=plain if keep_schema else None,
    )


def normalize_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return `schema` in plain JSON types, with numbers as JSON readers take them: as doubles.

    Schemas name limits such as the largest 64-bit integer, which have no other canonical form.

    Raises:
        InputError: It is no JSON.
    """
    try:
        plain: dict[str, Any] = canonicalise(schema).value
    except InputError:
        plain = canonicalise(_with_doubles(schema, 0)).value
    return plain


def _with_doubles(value: Any, depth: int) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise InputError("a number in the schema is too large") from None
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        return {key: _with_doubles(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_doubles(item, depth + 1) for item in value]
    return value


def find_pinned(name: str, source: str, manifest: ToolManifest) -> PinnedTool | None:
    """Return the pin of the tool of this server, or None."""
    return next((tool for tool in manifest.tools_named(name) if tool.source == source), None)


def check_identity(
    name: str, source: str, tool: ToolDefinition | None, manifest: ToolManifest
) -> Iterator[Finding]:
    """Yield a finding if the tool differs from its pin."""
    if pinned := find_pinned(name, source, manifest):
        if tool is not None:
            yield from _definition_changes(tool, pinned)
    elif others := manifest.tools_named(name):
        detail = f"`{shorten_name(name)}` is offered by another server than the pinned one"
        sources = [each.source for each in others[:5]]
        facts = {"changed": ["source"], "expected_source": sources, "source": source[:100]}
        yield _identity_finding(name, "TOOL_SHADOWED", detail, facts)
    elif known := find_look_alike(name, (each.name for each in manifest.tools)):
        detail = f"`{shorten_name(name)}` passes for the pinned tool `{shorten_name(known)}`"
        pair = {"looks_like": known, "source": source[:100]}
        yield _identity_finding(name, "TOOL_LOOKALIKE", detail, pair)
    else:
        detail = f"`{shorten_name(name)}` was never pinned"
        yield _identity_finding(name, "TOOL_UNKNOWN", detail, {"source": source[:100]})


def _definition_changes(tool: ToolDefinition, pinned: PinnedTool) -> Iterator[Finding]:
    compared = {
        "schema": (pinned.schema_digest, digest(normalize_schema(tool.schema))),
        "description": (pinned.description_digest, digest(tool.description)),
        "name": (pinned.name, tool.name),
    }
    # INVARIANT: a definition that differs from the pinned one is never passed over.
    changed = [part for part, (expected, actual) in compared.items() if expected != actual]
    if changed:
        facts = {
            "changed": changed,
            "expected_digest": {part: compared[part][0] for part in changed},
            "actual_digest": {part: compared[part][1][:100] for part in changed},
        }
        detail = f"`{shorten_name(pinned.name)}` changed since it was pinned: {', '.join(changed)}"
        yield _identity_finding(pinned.name, "TOOL_CHANGED", detail, facts)


def _identity_finding(name: str, rule: str, detail: str, facts: Mapping[str, Any]) -> Finding:
    span = Span(start=0, end=len(name))
    return tool_finding(name, ReasonCode.UNVERIFIED_TOOL, rule, detail, facts, span=span)

"""A manifest of pinned tools: what each tool was when somebody looked at it and agreed.

A tool is what its server says it is, until the server says something else. The manifest keeps
the digests of description and schema, so that a later change is seen before the tool is used.
The schema itself may be kept as well; then arguments are held against it even where the host
does not show the definition again.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

import msgspec
import re2

from demur.canonical import MAX_DEPTH, canonicalise, digest
from demur.errors import InputError, InputTypeError

__all__ = [
    "MAX_NAME_LENGTH",
    "ToolManifest",
    "PinnedTool",
    "ToolDefinition",
    "pin_tool",
    "normalize_schema",
]

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
        _check_name("a tool", self.name)
        if len(self.source) > MAX_NAME_LENGTH:
            raise InputError("the source of a tool is too long", where=self.name)
        for field in ("schema_digest", "description_digest"):
            if not _DIGEST.fullmatch(getattr(self, field)):
                help_text = "`pin_tool` makes them"
                raise InputError(f"`{field}` is no SHA-256 digest", where=self.name, help=help_text)
        if self.schema is not None and digest(normalize_schema(self.schema)) != self.schema_digest:
            raise InputError("the schema that was kept is not the one pinned", where=self.name)


class ToolManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tools that were pinned. A name may stand once for each source."""

    tools: tuple[PinnedTool, ...] = ()
    schema_version: Literal["manifest.v1"] = "manifest.v1"

    def __post_init__(self) -> None:
        seen = set()
        for tool in self.tools:
            if (tool.name, tool.source) in seen:
                raise InputError(f"the tool stands twice for `{tool.source}`", where=tool.name)
            seen.add((tool.name, tool.source))

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


def _check_name(what: str, name: str) -> None:
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        problem = f"the name of {what} is 1 to {MAX_NAME_LENGTH} printable characters"
        raise InputError(problem, where=name[:40] or None)

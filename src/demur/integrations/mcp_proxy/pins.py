"""The pins file: the definitions of MCP tools that a person has agreed to."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

import msgspec

from demur.errors import InputError
from demur.guards.tool_call.manifest import ToolManifest, PinnedTool

__all__ = ["ToolPins", "read_pins"]


class ToolPins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pinned tools, of one server or several.

    `manifest` pins description and schema of each tool; `rest` is the digest of everything else
    in its definition, by server and tool.
    """

    manifest: ToolManifest = ToolManifest()
    rest: Mapping[str, Mapping[str, str]] = {}
    schema_version: Literal["mcp_pins.v1"] = "mcp_pins.v1"

    def rest_of(self, server: str, tool: str) -> str | None:
        """Return the digest of a definition's remaining members, or None."""
        return self.rest.get(server, {}).get(tool)

    def tools_of(self, server: str) -> tuple[PinnedTool, ...]:
        """Return the tools that are pinned for a server."""
        return tuple(tool for tool in self.manifest.tools if tool.source == server)

    def with_server(
        self, server: str, tools: tuple[PinnedTool, ...], rest: Mapping[str, str]
    ) -> "ToolPins":
        """Return the pins with these tools of a server in place of its earlier ones."""
        others = tuple(tool for tool in self.manifest.tools if tool.source != server)
        return ToolPins(
            manifest=ToolManifest(tools=(*others, *tools)), rest={**self.rest, server: rest}
        )

    def to_json(self) -> str:
        """Return the pins as JSON, for a file under version control."""
        raw = msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=2)
        return raw.decode() + "\n"

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Return the pins written in `text`.

        Raises:
            InputError: They are invalid.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"not pins: {reason}", help="`demur mcp pin` writes them") from error


def read_pins(path: Path) -> ToolPins:
    """Return the pins in a file.

    Raises:
        InputError: It cannot be read, or is invalid.
    """
    try:
        return ToolPins.from_json(path.read_bytes())
    except InputError as error:
        raise InputError(error.problem, where=str(path), help=error.help) from error
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"cannot read the pins: {reason}", where=str(path)) from error

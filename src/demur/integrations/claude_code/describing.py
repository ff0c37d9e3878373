"""A tool call of Claude Code as a request: long texts, such as a file's, are cut on record.

Guards see them whole; a policy compares what is on record.
"""

from collections.abc import Mapping
from typing import Any

from demur.gate.described import describe_call

__all__ = ["LONGEST", "describe_tool"]

LONGEST = 4_000


def describe_tool(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request, with at most `LONGEST` characters of each text."""
    return describe_call(name, {key: _cut(value) for key, value in arguments.items()})


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:LONGEST]} ... ({len(value)} characters)"
    if isinstance(value, list | tuple):
        return [_cut(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _cut(item) for key, item in value.items()}
    return value

"""Texts of a tool's definition that speak to the model: tool poisoning.

A description is read by the model and seldom by a person, so it is a place to hide orders. Every
text of the definition is looked at: the description, and the titles, descriptions, defaults,
examples and choices within the schema. Characters that nobody can see are found too.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError
from demur.guards.text_rules.rule import RuleSet
from demur.guards.text_rules.text import find_text_findings
from demur.guards.tool_call.arguments import ArgumentPart, find_texts
from demur.guards.tool_call.manifest import ToolDefinition
from demur.model.finding import Finding, Span

__all__ = ["find_poison"]

_MAX_EXCERPT = 100
_MAX_SCHEMA_TEXT = 1_000_000
# Tag characters spell out an invisible text, unless a flag goes before them; overrides change
# the direction of writing, so that a person reads something else than the model.
_HIDDEN = re.compile(
    "(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0001\U000e0020-\U000e007f]{2,}"
    "|[\u202a-\u202e\u2066-\u2069]|[\u200b\u2060-\u2064]{3,}"
)


def find_poison(tool: ToolDefinition, rules: RuleSet) -> Iterator[Finding]:
    """Yield findings for text in `tool` that is meant for the model and not for a person.

    The evidence says under `field` which text the span is in.
    """
    for field, text in _definition_texts(tool):
        for found in find_text_findings(text, rules, Surface.TOOL_CALL):
            assert found.span is not None
            excerpt = text[found.span.start : found.span.end][:_MAX_EXCERPT]
            yield _place_finding(found, tool, field, {"excerpt": excerpt})
        for hidden in _HIDDEN.finditer(text):
            seen = Finding(
                code=ReasonCode.CONTEXT_INJECTION,
                surface=Surface.TOOL_CALL,
                span=Span(start=hidden.start(), end=hidden.end()),
                detail="the tool's text holds characters that nobody can see",
                evidence={"rule": "TOOL_HIDDEN_TEXT"},
            )
            yield _place_finding(seen, tool, field, {})


def _definition_texts(tool: ToolDefinition) -> Iterator[ArgumentPart]:
    size = 0
    yield ArgumentPart("name", tool.name)
    yield ArgumentPart("description", tool.description)
    for part in _schema_texts(tool.schema):
        size += len(part.value)
        if size > _MAX_SCHEMA_TEXT:
            raise InputError("the schema holds too much text", where=tool.name[:40])
        yield part


def _schema_texts(schema: Mapping[str, Any]) -> Iterator[ArgumentPart]:
    for place, text in find_texts(ArgumentPart("schema", schema)):
        # Types, references and single words give no orders.
        if " " in text or len(text) > 40:
            yield ArgumentPart(place, text)


def _place_finding(
    found: Finding, tool: ToolDefinition, field: str, more: dict[str, Any]
) -> Finding:
    evidence = {
        **found.evidence,
        **more,
        "source": "tool definition",
        "tool": tool.name[:100],
        "field": field,
    }
    return msgspec.structs.replace(found, evidence=evidence)

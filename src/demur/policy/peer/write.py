"""Write an imported policy as people would: short values on one line, remarks as comments."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any

import yaml

from demur.errors import one_line
from demur.policy.peer.draft import PolicyDraft, RuleDraft
from demur.policy.peer.remark import ImportDiagnostic

__all__ = ["render_policy"]

_WIDTH = 100
_GROUPS = ("all", "any")


def render_policy(draft: PolicyDraft, diagnostics: Sequence[ImportDiagnostic] = ()) -> str:
    """Return the policy as YAML, with each diagnostic as a comment at its place."""
    return (
        "\n".join((*_head_lines(draft, diagnostics), *_rules_lines(draft.rules, diagnostics)))
        + "\n"
    )


def _head_lines(draft: PolicyDraft, diagnostics: Iterable[ImportDiagnostic]) -> Iterator[str]:
    yield from _comment_lines(f"Imported from {draft.source}.", "")
    for remark in diagnostics:
        if remark.rule is None:
            yield from _comment_lines(f"{remark.kind}: {remark.message}", "")
    yield "schema_version: policy.v1"
    yield f"policy_id: {_inline_value(draft.policy_id)}"
    yield f"policy_version: {_inline_value(draft.policy_version)}"
    yield f"mode: {draft.mode}"
    code = {} if draft.code is None else {"reason_code": draft.code}
    yield f"defaults: {_inline_value({'verdict': str(draft.verdict), **code})}"
    yield ""


def _rules_lines(
    rules: Sequence[RuleDraft], diagnostics: Sequence[ImportDiagnostic]
) -> Iterator[str]:
    yield "rules:" if rules else "rules: []"
    for number, rule in enumerate(rules):
        if number:
            yield ""
        for remark in diagnostics:
            if remark.rule == rule.id:
                yield from _comment_lines(f"{remark.kind}: {remark.message}", "  ")
        yield f"  - id: {_inline_value(rule.id)}"
        yield f"    stage: {rule.stage}"
        if rule.shadow:
            yield "    shadow: true"
        yield from _condition_lines(rule.condition, "    ")
        yield from _field_lines("then", _then_fields(rule), "    ")


def _then_fields(rule: RuleDraft) -> dict[str, Any]:
    then: dict[str, Any] = {"verdict": str(rule.verdict), "reason_codes": list(rule.codes)}
    return {**then, "missing": list(rule.missing)} if rule.missing else then


def _field_lines(name: str, fields: Mapping[str, Any], indent: str) -> Iterator[str]:
    short = f"{indent}{name}: {_inline_value(fields)}"
    if len(short) <= _WIDTH:
        yield short
        return
    yield f"{indent}{name}:"
    yield from (f"{indent}  {key}: {_inline_value(value)}" for key, value in fields.items())


def _condition_lines(condition: Mapping[str, Any], indent: str) -> Iterator[str]:
    if not condition:
        yield f"{indent}if: {{}}"
        return
    yield f"{indent}if:"
    for key, value in condition.items():
        if key in _GROUPS:
            yield f"{indent}  {key}:"
            yield from (f"{indent}    - {_inline_value(part)}" for part in value)
        else:
            yield f"{indent}  {_inline_value(key)}: {_inline_value(value)}"


def _inline_value(value: Any) -> str:
    """Return a value on one line."""
    if isinstance(value, dict):
        pairs = ", ".join(
            f"{_inline_value(key)}: {_inline_value(item)}" for key, item in value.items()
        )
        return f"{{ {pairs} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline_value, value))}]"
    return _quote_scalar(value)


# Cached: the same words occur in many rules, and PyYAML is slow to quote them.
@lru_cache(maxsize=4096, typed=True)
def _quote_scalar(value: Any) -> str:
    # Dumped in a list, where PyYAML quotes every ambiguous scalar.
    text: str = yaml.safe_dump([value], default_flow_style=True, width=inf, allow_unicode=True)
    text = text.strip()[1:-1]
    if not text.isprintable():
        text = yaml.safe_dump(value, default_style='"', width=inf).strip()
    return text


def _comment_lines(text: str, indent: str) -> list[str]:
    width = _WIDTH - len(indent) - 2
    lines = textwrap.wrap(one_line(text), width, break_long_words=False, break_on_hyphens=False)
    return [f"{indent}# {line}" for line in lines]

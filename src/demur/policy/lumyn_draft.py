"""An imported policy before its codes are renamed, its diagnostics, and its YAML text."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

import yaml

from demur.codes.vocabulary import Verdict
from demur.errors import DemurError, one_line
from demur.policy.policy import Mode, Stage


class RuleDraft(NamedTuple):
    """One rule, and the place of Lumyn's rule."""

    id: str
    stage: Stage
    verdict: Verdict
    condition: dict[str, Any]
    where: str
    codes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    shadow: bool = False


class PolicyDraft(NamedTuple):
    """A whole policy."""

    source: str
    policy_id: str
    policy_version: str
    mode: Mode
    verdict: Verdict
    code: str | None
    rules: tuple[RuleDraft, ...]


class ImportLevel(StrEnum):
    """The level of a diagnostic."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


# Error: something was left out. Warning: it decides or reports differently. Note: no change.
DIAGNOSTIC_LEVELS = {
    "left-out": ImportLevel.ERROR,
    "code-class": ImportLevel.WARNING,
    "code-left-out": ImportLevel.WARNING,
    "code-replaced": ImportLevel.WARNING,
    "ignored-key": ImportLevel.WARNING,
    "mode": ImportLevel.WARNING,
    "never-matched": ImportLevel.WARNING,
    "on-trial": ImportLevel.WARNING,
    "precedence": ImportLevel.WARNING,
    "rates": ImportLevel.WARNING,
    "renamed-rule": ImportLevel.WARNING,
    "unequal": ImportLevel.WARNING,
    "verdict": ImportLevel.WARNING,
    "words-left-out": ImportLevel.WARNING,
    "code-renamed": ImportLevel.NOTE,
    "evidence-needed": ImportLevel.NOTE,
    "kinds": ImportLevel.NOTE,
    "moved": ImportLevel.NOTE,
    "never-read": ImportLevel.NOTE,
}
# These hold for the whole policy and are reported once, at the first place.
_ONCE = frozenset({"kinds", "precedence", "rates"})


class UntranslatableError(DemurError):
    """A part of a Lumyn policy that cannot be translated."""


class ImportDiagnostic(NamedTuple):
    """One difference, its place, and the rule that it concerns."""

    kind: str
    level: ImportLevel
    where: str
    message: str
    help: str | None
    rule: str | None


class ImportDiagnostics:
    """Collects diagnostics; those about the whole policy only once."""

    def __init__(self, rule: str | None = None) -> None:
        self.rule = rule
        self.found: list[ImportDiagnostic] = []

    def add(
        self,
        kind: str,
        where: str,
        message: str,
        help_text: str | None = None,
        *,
        rule: str | None = None,
    ) -> None:
        """Add a diagnostic about `rule`, or about the current rule."""
        about = None if kind in _ONCE else rule or self.rule
        self._append_once(
            ImportDiagnostic(kind, DIAGNOSTIC_LEVELS[kind], where, message, help_text, about)
        )

    def add_all(self, others: "ImportDiagnostics", rule: str | None) -> None:
        """Add the diagnostics of one rule under its final name `rule`."""
        for diagnostic in others.found:
            self._append_once(diagnostic._replace(rule=diagnostic.rule and rule))

    def _append_once(self, diagnostic: ImportDiagnostic) -> None:
        if diagnostic.kind in _ONCE and any(diagnostic.kind == known.kind for known in self.found):
            return
        self.found.append(diagnostic)


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
    for diagnostic in diagnostics:
        if diagnostic.rule is None:
            yield from _comment_lines(f"{diagnostic.kind}: {diagnostic.message}", "")
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
        for diagnostic in diagnostics:
            if diagnostic.rule == rule.id:
                yield from _comment_lines(f"{diagnostic.kind}: {diagnostic.message}", "  ")
        yield f"  - id: {_inline_value(rule.id)}"
        yield f"    stage: {rule.stage}"
        if rule.shadow:
            yield "    shadow: true"
        yield from _condition_lines(rule.condition, "    ")
        then: dict[str, Any] = {"verdict": str(rule.verdict), "reason_codes": list(rule.codes)}
        missing = {"missing": list(rule.missing)} if rule.missing else {}
        yield from _field_lines("then", {**then, **missing}, "    ")


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

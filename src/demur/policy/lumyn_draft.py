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
_WARNINGS = (
    "code-class",
    "code-left-out",
    "code-replaced",
    "ignored-key",
    "mode",
    "never-matched",
    "on-trial",
    "precedence",
    "rates",
    "renamed-rule",
    "unequal",
    "verdict",
    "words-left-out",
)
_NOTES = ("code-renamed", "evidence-needed", "kinds", "moved", "never-read")
DIAGNOSTIC_LEVELS = {
    "left-out": ImportLevel.ERROR,
    **dict.fromkeys(_WARNINGS, ImportLevel.WARNING),
    **dict.fromkeys(_NOTES, ImportLevel.NOTE),
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


class ImportLog:
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
        level = DIAGNOSTIC_LEVELS[kind]
        self._append_once(ImportDiagnostic(kind, level, where, message, help_text, about))

    def add_all(self, others: "ImportLog", rule: str | None) -> None:
        """Add the diagnostics of one rule under its final name `rule`."""
        for diagnostic in others.found:
            self._append_once(diagnostic._replace(rule=diagnostic.rule and rule))

    def _append_once(self, diagnostic: ImportDiagnostic) -> None:
        if diagnostic.kind in _ONCE and any(diagnostic.kind == known.kind for known in self.found):
            return
        self.found.append(diagnostic)


_Diagnostics = Sequence[ImportDiagnostic]
_WIDTH = 100
_GROUPS = ("all", "any")


def render_policy(draft: PolicyDraft, diagnostics: Sequence[ImportDiagnostic] = ()) -> str:
    """Return the policy as YAML, with each diagnostic as a comment at its place."""
    lines = (*_head_lines(draft, diagnostics), *_rules_lines(draft.rules, diagnostics))
    return "\n".join(lines) + "\n"


def _head_lines(draft: PolicyDraft, diagnostics: Iterable[ImportDiagnostic]) -> Iterator[str]:
    yield from _comment_lines(f"Imported from {draft.source}.", "")
    for diagnostic in diagnostics:
        if diagnostic.rule is None:
            yield from _comment_lines(f"{diagnostic.kind}: {diagnostic.message}", "")
    yield "schema_version: policy.v1"
    yield f"policy_id: {_inline(draft.policy_id)}"
    yield f"policy_version: {_inline(draft.policy_version)}"
    yield f"mode: {draft.mode}"
    code = {} if draft.code is None else {"reason_code": draft.code}
    yield f"defaults: {_inline({'verdict': str(draft.verdict), **code})}"
    yield ""


def _rules_lines(rules: Sequence[RuleDraft], diagnostics: _Diagnostics) -> Iterator[str]:
    yield "rules:" if rules else "rules: []"
    for number, rule in enumerate(rules):
        if number:
            yield ""
        for diagnostic in diagnostics:
            if diagnostic.rule == rule.id:
                yield from _comment_lines(f"{diagnostic.kind}: {diagnostic.message}", "  ")
        yield f"  - id: {_inline(rule.id)}"
        yield f"    stage: {rule.stage}"
        if rule.shadow:
            yield "    shadow: true"
        yield from _condition_lines(rule.condition, "    ")
        then: dict[str, Any] = {"verdict": str(rule.verdict), "reason_codes": list(rule.codes)}
        if rule.missing:
            then["missing"] = list(rule.missing)
        short = f"    then: {_inline(then)}"
        if len(short) <= _WIDTH:
            yield short
            continue
        yield "    then:"
        yield from (f"      {key}: {_inline(value)}" for key, value in then.items())


def _condition_lines(condition: Mapping[str, Any], indent: str) -> Iterator[str]:
    if not condition:
        yield f"{indent}if: {{}}"
        return
    yield f"{indent}if:"
    for key, value in condition.items():
        if key in _GROUPS:
            yield f"{indent}  {key}:"
            yield from (f"{indent}    - {_inline(part)}" for part in value)
        else:
            yield f"{indent}  {_inline(key)}: {_inline(value)}"


def _inline(value: Any) -> str:
    """Return a value on one line."""
    if isinstance(value, dict):
        pairs = (f"{_inline(key)}: {_inline(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
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

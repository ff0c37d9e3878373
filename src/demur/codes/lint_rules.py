"""The rules of `demur codes lint`, the check of one code, and suppression comments.

The Python and YAML readers find the places of codes; this module alone decides what is wrong
there, so both report alike. `# demur: allow RULE - reason` suppresses a rule on its line. A
suppression without a reason is reported in place of the problem it hides.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, StrEnum, auto
from pathlib import Path
from typing import NamedTuple

from demur.codes.entry import Entry, NameProblem, is_code, local_name, name_problem
from demur.codes.refusal_line import REFUSAL_MARK
from demur.codes.registry import Registry
from demur.errors import one_line, shorten
from demur.source.item import did_you_mean

_MAX_QUOTED_LENGTH = 60
_MAX_PROBLEM_LENGTH = 160
_MIN_CHILDREN = 3
_PLACEHOLDER = re.compile(r"[{}]|\$\(|%[-+#0-9.]*[a-z(]")
_FRAGMENT = re.compile(r"[A-Z]{2}_|_[A-Z]{2}")
_MEASURED = re.compile(r"(?:^|_)(?:SCORE_\d+|\d+_?(?:PCT|PERCENT))(?=_|$)")


class LintLevel(StrEnum):
    """Whether a diagnostic is an error or a warning."""

    ERROR = "error"
    WARNING = "warning"


class CodeLintRule(NamedTuple):
    """One kind of misuse. The id is stable: suppressions and reports name it."""

    id: str
    level: LintLevel
    summary: str
    help: str


_RULES_FILE = Path(__file__).with_name("lint_rules.json")
CODE_RULES: Mapping[str, CodeLintRule] = {
    row["id"]: CodeLintRule(**{**row, "level": LintLevel(row["level"])})
    for row in json.loads(_RULES_FILE.read_text(encoding="utf-8"))
}

_RULE_OF_PROBLEM: Mapping[NameProblem | None, str] = {
    NameProblem.PROSE: "prose-code",
    NameProblem.MEASURE: "metric-code",
    NameProblem.NUMBER: "numeric-code",
}


class PlaceCertainty(Enum):
    """How certain it is that a text at some place is meant as a reason code."""

    CERTAIN = auto()
    """The place only takes codes: an argument of demur, a key of a policy."""
    NAMED = auto()
    """A variable or key called `reason_code`: codes and sentences are checked."""
    LIKELY = auto()
    """Something called `codes`: only texts in the form of a code are checked."""


class PlaceKind(NamedTuple):
    """How certain a place of codes is, and whether the code is emitted or looked up."""

    certainty: PlaceCertainty
    emits: bool = True

    def expects_code(self, text: str) -> bool:
        """Return whether `text` is meant as a code here."""
        if self.certainty is PlaceCertainty.CERTAIN or (is_code(text) and "_" in local_name(text)):
            return True
        if self.certainty is PlaceCertainty.NAMED and name_problem(text) is NameProblem.PROSE:
            return True
        return bool(_PLACEHOLDER.search(text) and _FRAGMENT.search(text))

    def expects_built(self, constants: str) -> bool:
        """Return whether a text built at run time around `constants` is meant as a code here."""
        return (
            self.certainty is not PlaceCertainty.LIKELY or _FRAGMENT.search(constants) is not None
        )


class CodeDiagnostic(NamedTuple):
    """A problem of one code: the rule, the message, and help."""

    rule: str
    message: str
    help: str


class LocatedDiagnostic(NamedTuple):
    """A diagnostic and its place in a file; lines and columns count from 1."""

    line: int
    column: int
    rule: str
    message: str
    help: str
    last_line: int


def unreadable_file(problem: str, line: int = 1, column: int = 1) -> LocatedDiagnostic:
    """Return the diagnostic for an unreadable file, at the place where reading failed."""
    rule = CODE_RULES["unreadable"]
    message = _shorten_line(problem, _MAX_PROBLEM_LENGTH)
    return LocatedDiagnostic(line, column, rule.id, message, rule.help, line)


def quote_text(text: str) -> str:
    """Return `text` in backticks, shortened to one line."""
    return f"`{_shorten_line(text, _MAX_QUOTED_LENGTH)}`"


def _shorten_line(text: str, max_length: int) -> str:
    return one_line(shorten(text, max_length))


def check_code(text: str, kind: PlaceKind, registry: Registry) -> Iterator[CodeDiagnostic]:
    """Yield the problems of `text` as a code at such a place."""
    entry = registry.get(text)
    if entry is not None:
        if kind.emits:
            yield from _check_registered(entry, registry)
    elif kind.expects_code(text):
        yield _check_unregistered(text, registry)


def _check_registered(entry: Entry, registry: Registry) -> Iterator[CodeDiagnostic]:
    if entry.deprecated:
        rule = CODE_RULES["deprecated-code"]
        advice = f"use `{entry.replacement}`" if entry.replacement else rule.help
        message = f"`{entry.code}` is deprecated since {entry.deprecated_since}"
        yield CodeDiagnostic(rule.id, message, advice)
    narrower = [child.code for child in registry.children(entry.code) if not child.deprecated]
    if len(narrower) >= _MIN_CHILDREN:
        some = ", ".join(f"`{code}`" for code in narrower[:_MIN_CHILDREN])
        message = f"`{entry.code}` is a fallback for {len(narrower)} narrower codes"
        advice = f"{CODE_RULES['broad-code'].help}, such as {some}"
        yield CodeDiagnostic("broad-code", message, advice)


def _check_unregistered(text: str, registry: Registry) -> CodeDiagnostic:
    problem = name_problem(text)
    rule = CODE_RULES[_rule_of(text, problem)]
    if rule.id == "unregistered-code":
        message = f"unknown reason code {quote_text(text)}"
    elif rule.id == "raw-refusal-string":
        message = f"a refusal line is not a code: {quote_text(text)}"
    elif rule.id == "dynamic-code":
        message = f"a code must not hold a value: {quote_text(text)}"
    else:
        message = f"{problem}: {quote_text(text)}"
    hint = did_you_mean(text, (entry.code for entry in registry if not entry.deprecated))
    if hint is None and (meant := registry.code_of_phrase(text)):
        hint = f"did you mean `{meant}`?"
    return CodeDiagnostic(rule.id, message, f"{hint} {rule.help}" if hint else rule.help)


def _rule_of(text: str, problem: NameProblem | None) -> str:
    if text.lstrip().startswith(REFUSAL_MARK):
        return "raw-refusal-string"
    if _PLACEHOLDER.search(text):
        return "dynamic-code"
    rule = _RULE_OF_PROBLEM.get(problem, "unregistered-code")
    measured = rule == "numeric-code" and _MEASURED.search(local_name(text))
    return "dynamic-code" if measured else rule


SUPPRESSION_MARKER = "demur:"

_ALLOW = re.compile(r"#\s*demur:\s*allow\b([^#]*)")
_DASH = re.compile(r"\s[-\N{EN DASH}\N{EM DASH}]+(?:\s|$)")
# These report a check that could not run, or that was suppressed without a reason.
_NEVER_SILENT = frozenset({"bare-suppression", "unreadable"})


class SourceComment(NamedTuple):
    """A comment in a file, from its hash on; line and column count from 1."""

    line: int
    column: int
    text: str


class _Allowance(NamedTuple):
    comment: SourceComment
    rules: tuple[str, ...]
    reason: str


def apply_suppressions(
    diagnostics: Iterable[LocatedDiagnostic], comments: Iterable[SourceComment]
) -> Iterator[LocatedDiagnostic]:
    """Yield the diagnostics that no comment suppresses, and one for each invalid comment."""
    allowances = [allowance for comment in comments for allowance in _parse_allowances(comment)]
    silent = {(one.comment.line, rule) for one in allowances for rule in one.rules}
    for diagnostic in diagnostics:
        # A text over several lines can have a comment only on its last line.
        places = {(diagnostic.line, diagnostic.rule), (diagnostic.last_line, diagnostic.rule)}
        if diagnostic.rule in _NEVER_SILENT or silent.isdisjoint(places):
            yield diagnostic
    for allowance in allowances:
        yield from _check_allowance(allowance)


def _parse_allowances(comment: SourceComment) -> Iterator[_Allowance]:
    for found in _ALLOW.finditer(comment.text):
        rules, *rest = _DASH.split(f" {found[1].strip()}", maxsplit=1)
        names = (words[0] for part in rules.split(",") if (words := part.split()))
        here = comment._replace(column=comment.column + found.start())
        yield _Allowance(here, tuple(names), "".join(rest).strip())


def _check_allowance(allowance: _Allowance) -> Iterator[LocatedDiagnostic]:
    if not allowance.rules or not allowance.reason:
        problem = "needs a reason" if allowance.rules else "names no rule"
        advice = CODE_RULES["bare-suppression"].help
        yield _bad_suppression(allowance, f"a suppression {problem}", advice)
    for name in allowance.rules:
        if name not in CODE_RULES or name in _NEVER_SILENT:
            known = CODE_RULES.keys() - _NEVER_SILENT
            advice = did_you_mean(name, sorted(known)) or f"one of {', '.join(sorted(known))}"
            yield _bad_suppression(allowance, f"no rule {quote_text(name)} can be allowed", advice)


def _bad_suppression(allowance: _Allowance, message: str, advice: str) -> LocatedDiagnostic:
    line, column, _ = allowance.comment
    return LocatedDiagnostic(line, column, "bare-suppression", message, advice, line)

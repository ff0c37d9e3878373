"""Comments that allow a rule on one line, and what is wrong with such a comment.

A suppression names the rule and says why: `demur: allow RULE - reason`, after a
hash, on the line it is for. One without a reason is reported in place of what it hides.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.codes.usage.rules import CODE_RULES, LocatedDiagnostic, quote_text
from demur.source.suggest import did_you_mean

__all__ = ["SUPPRESSION_MARKER", "SourceComment", "apply_suppressions"]

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
    for sighting in diagnostics:
        # A text over several lines can have a comment only on its last line.
        places = {(sighting.line, sighting.rule), (sighting.last_line, sighting.rule)}
        if sighting.rule in _NEVER_SILENT or silent.isdisjoint(places):
            yield sighting
    for allowance in allowances:
        yield from _check_allowance(allowance)


def _parse_allowances(comment: SourceComment) -> Iterator[_Allowance]:
    for found in _ALLOW.finditer(comment.text):
        rules, *rest = _DASH.split(f" {found[1].strip()}", maxsplit=1)
        names = (words[0] for part in rules.split(",") if (words := part.split()))
        here = comment._replace(column=comment.column + found.start())
        yield _Allowance(here, tuple(names), "".join(rest).strip())


def _check_allowance(allowance: _Allowance) -> Iterator[LocatedDiagnostic]:
    if not allowance.rules:
        yield _bad_suppression(
            allowance, "a suppression names no rule", CODE_RULES["bare-suppression"].help
        )
    elif not allowance.reason:
        yield _bad_suppression(
            allowance, "a suppression needs a reason", CODE_RULES["bare-suppression"].help
        )
    for name in allowance.rules:
        if name not in CODE_RULES or name in _NEVER_SILENT:
            known = CODE_RULES.keys() - _NEVER_SILENT
            advice = did_you_mean(name, sorted(known)) or f"one of {', '.join(sorted(known))}"
            yield _bad_suppression(allowance, f"no rule {quote_text(name)} can be allowed", advice)


def _bad_suppression(allowance: _Allowance, message: str, advice: str) -> LocatedDiagnostic:
    line, column, _ = allowance.comment
    return LocatedDiagnostic(line, column, "bare-suppression", message, advice, line)

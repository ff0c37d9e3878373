"""The checks of the linter: each looks at one kind of fault and yields what it finds."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from demur.codes.default import registry_or_core
from demur.codes.vocabulary import RefusalClass
from demur.errors import one_line
from demur.respond.lint_context import LintContext
from demur.respond.lint_parts import MarkHit, PartStretch
from demur.respond.lint_report import RefusalPart, RefusalProblem
from demur.respond.lint_rules import MISSING_PART_TEXTS, LINT_RULES
from demur.respond.lint_text import LintText, fold_accents

__all__ = ["LintInput", "check_structure", "check_words"]

# Faults that a mark alone proves.
_SELF_EVIDENT_RULES = (
    "moralising",
    "assumed-intent",
    "robotic-tone",
    "leaked-policy",
    "over-apology",
)
_MAX_REASON_WORDS = 45
_NAME = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_WORD = re.compile(r"[^\W_]+")


class LintInput(NamedTuple):
    """The input of all checks."""

    text: LintText
    context: LintContext
    hits: Sequence[MarkHit]
    stretches: Sequence[PartStretch]
    # The names of requirements in the language.
    names: Mapping[str, Sequence[str]]

    def hits_of(self, means: str) -> list[MarkHit]:
        """Return the marks of one meaning."""
        return [hit for hit in self.hits if hit.mark.means == means]

    def stretches_of(self, part: RefusalPart) -> list[PartStretch]:
        """Return the stretches of one part."""
        return [stretch for stretch in self.stretches if stretch.part is part]

    def make_problem(self, rule: str, start: int, end: int, message: str = "") -> RefusalProblem:
        """Return the problem of `rule` at a place."""
        said = message or LINT_RULES[rule].message
        span = self.text.original_span(start, end)
        return RefusalProblem(rule=rule, message=said, help=LINT_RULES[rule].help, span=span)


def check_structure(lint_input: LintInput) -> Iterator[RefusalProblem]:
    """Yield the problems that need no language."""
    for hit in lint_input.hits:
        if hit.mark.means in _SELF_EVIDENT_RULES and not (
            hit.mark.outside_crisis and lint_input.context.crisis
        ):
            yield lint_input.make_problem(hit.mark.means, hit.start, hit.end)
    yield from _check_leaked_names(lint_input)
    yield from _check_resources(lint_input)
    yield from _check_unstated(
        lint_input, "unnamed-requirement", RefusalClass.WORKFLOW_BLOCK, "missing"
    )
    yield from _check_unstated(
        lint_input, "unstated-constraints", RefusalClass.SOFT_BLOCK, "constraints"
    )


def check_words(lint_input: LintInput) -> Iterator[RefusalProblem]:
    """Yield the problems of the parts, for a language with marks."""
    yield from _check_boundary(lint_input)
    yield from _check_reason(lint_input)
    yield from _check_alternatives(lint_input)
    yield from _check_bypass_hints(lint_input)
    yield from _check_apologies(lint_input)
    yield from _check_missing_parts(lint_input)


def _check_leaked_names(lint_input: LintInput) -> Iterator[RefusalProblem]:
    """Yield reason codes and rule names, which are not for people."""
    known = registry_or_core()
    for found in _NAME.finditer(lint_input.text.folded):
        if found[0] in known or found[0] in lint_input.context.names:
            yield lint_input.make_problem("leaked-policy", *found.span())


def _check_resources(lint_input: LintInput) -> Iterator[RefusalProblem]:
    if lint_input.context.crisis and not lint_input.hits_of("resource"):
        rule = LINT_RULES["no-crisis-resources"]
        yield RefusalProblem(rule="no-crisis-resources", message=rule.message, help=rule.help)


def _check_unstated(
    lint_input: LintInput, rule: str, refusal_class: RefusalClass, field: str
) -> Iterator[RefusalProblem]:
    """Yield the requirements of the decision that the text does not name."""
    if lint_input.context.refusal_class is not refusal_class or lint_input.context.crisis:
        return
    said = set(_WORD.findall(lint_input.text.folded.lower()))
    for name in getattr(lint_input.context, field):
        if not _names_requirement(lint_input, said, name):
            message = f"{LINT_RULES[rule].message}: `{one_line(name)}`"
            yield RefusalProblem(rule=rule, message=message, help=LINT_RULES[rule].help)


def _names_requirement(lint_input: LintInput, text_words: set[str], name: str) -> bool:
    """Return whether the text names a requirement: as written, by its words, or translated."""
    folded, text = fold_accents(name).lower(), lint_input.text.folded.lower()
    if folded in text or any(
        fold_accents(one).lower() in text for one in lint_input.names.get(name, ())
    ):
        return True
    words = [word for word in _WORD.findall(folded.replace("_", " ")) if len(word) > 2]
    # The first letters are enough: `files` names `file`, and `approved` an `approval`.
    return bool(words) and all(
        any(one.startswith(word[:5]) for one in text_words) for word in words
    )


def _check_boundary(lint_input: LintInput) -> Iterator[RefusalProblem]:
    """Yield a vague boundary: no sentence says what is refused."""
    drawn, vague = (
        lint_input.stretches_of(RefusalPart.BOUNDARY),
        lint_input.hits_of("vague-boundary"),
    )
    if drawn and all(any(b.start <= v.start < b.end for v in vague) for b in drawn):
        yield lint_input.make_problem("vague-boundary", vague[0].start, vague[0].end)


def _check_reason(lint_input: LintInput) -> Iterator[RefusalProblem]:
    given = [stretch for stretch in lint_input.stretches_of(RefusalPart.REASON) if not stretch.weak]
    if not given:
        return
    first, last = given[0], given[-1]
    words = lint_input.text.folded[first.start : first.end].split()
    if last.sentence != first.sentence or len(words) > _MAX_REASON_WORDS:
        yield lint_input.make_problem("long-reason", first.start, last.end)


def _check_alternatives(lint_input: LintInput) -> Iterator[RefusalProblem]:
    """Yield generic offers: no sentence offers anything in particular."""
    generic = lint_input.hits_of("generic-alternatives")
    offers = lint_input.stretches_of(RefusalPart.ALTERNATIVES)
    particular = (
        stretch
        for stretch in offers
        if not any(stretch.start <= hit.start < stretch.end for hit in generic)
    )
    if generic and next(particular, None) is None:
        yield lint_input.make_problem("generic-alternatives", generic[0].start, generic[0].end)


def _check_bypass_hints(lint_input: LintInput) -> Iterator[RefusalProblem]:
    if lint_input.context.refusal_class is RefusalClass.HARD_BLOCK:
        for hit in lint_input.hits_of("bypass-hint"):
            yield lint_input.make_problem("bypass-hint", hit.start, hit.end)


def _check_apologies(lint_input: LintInput) -> Iterator[RefusalProblem]:
    said = lint_input.hits_of("apology")
    if len(said) > 1 and not lint_input.hits_of("over-apology"):
        yield lint_input.make_problem("over-apology", said[1].start, said[1].end)


def _check_missing_parts(lint_input: LintInput) -> Iterator[RefusalProblem]:
    present = {stretch.part for stretch in lint_input.stretches}
    if lint_input.hits_of("generic-alternatives"):
        present.add(RefusalPart.ALTERNATIVES)
    if lint_input.context.crisis:
        # A person in danger needs to be heard, and whom to call, not a boundary and a reason.
        present |= {RefusalPart.BOUNDARY, RefusalPart.REASON}
        if lint_input.hits_of("resource"):
            present.add(RefusalPart.ALTERNATIVES)
    absent = [part for part in RefusalPart if part not in present]
    if {RefusalPart.ALTERNATIVES, RefusalPart.ENGAGEMENT} <= set(absent):
        rule = LINT_RULES["dead-end"]
        yield RefusalProblem(rule="dead-end", message=rule.message, help=rule.help)
        absent = absent[:-2]
    for part in absent:
        message, help_text = MISSING_PART_TEXTS[part]
        yield RefusalProblem(rule="missing-part", message=message, help=help_text, part=part)

"""The checks of the linter: each looks at one kind of fault and yields what it finds."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from demur.codes.default import registry_or_core
from demur.codes.vocabulary import RefusalClass
from demur.errors import one_line
from demur.respond.lint_context import Context
from demur.respond.lint_parts import Hit, Stretch
from demur.respond.lint_report import RefusalPart, RefusalProblem
from demur.respond.lint_rules import MISSING, RULES
from demur.respond.lint_text import Text, fold

__all__ = ["Seen", "check_structure", "check_words"]

# Faults that a mark alone proves.
_PLAIN = ("moralising", "assumed-intent", "robotic-tone", "leaked-policy", "over-apology")
_LONGEST_REASON = 45
_NAME = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_WORD = re.compile(r"[^\W_]+")


class Seen(NamedTuple):
    """The input of all checks."""

    text: Text
    context: Context
    hits: Sequence[Hit]
    stretches: Sequence[Stretch]
    # The names of requirements in the language.
    names: Mapping[str, Sequence[str]]

    def of(self, means: str) -> list[Hit]:
        """Return the marks of one meaning."""
        return [hit for hit in self.hits if hit.mark.means == means]

    def part(self, part: RefusalPart) -> list[Stretch]:
        """Return the stretches of one part."""
        return [stretch for stretch in self.stretches if stretch.part is part]

    def problem(self, rule: str, start: int, end: int, message: str = "") -> RefusalProblem:
        """Return the problem of `rule` at a place."""
        said = message or RULES[rule].message
        span = self.text.span(start, end)
        return RefusalProblem(rule=rule, message=said, help=RULES[rule].help, span=span)


def check_structure(seen: Seen) -> Iterator[RefusalProblem]:
    """Yield the problems that need no language."""
    for hit in seen.hits:
        if hit.mark.means in _PLAIN and not (hit.mark.outside_crisis and seen.context.crisis):
            yield seen.problem(hit.mark.means, hit.start, hit.end)
    yield from _names(seen)
    yield from _resources(seen)
    yield from _unsaid(seen, "unnamed-requirement", RefusalClass.WORKFLOW_BLOCK, "missing")
    yield from _unsaid(seen, "unstated-constraints", RefusalClass.SOFT_BLOCK, "constraints")


def check_words(seen: Seen) -> Iterator[RefusalProblem]:
    """Yield the problems of the parts, for a language with marks."""
    yield from _boundary(seen)
    yield from _reason(seen)
    yield from _alternatives(seen)
    yield from _bypass(seen)
    yield from _apologies(seen)
    yield from _missing(seen)


def _names(seen: Seen) -> Iterator[RefusalProblem]:
    """Yield reason codes and rule names, which are not for people."""
    known = registry_or_core()
    for found in _NAME.finditer(seen.text.folded):
        if found[0] in known or found[0] in seen.context.names:
            yield seen.problem("leaked-policy", *found.span())


def _resources(seen: Seen) -> Iterator[RefusalProblem]:
    if seen.context.crisis and not seen.of("resource"):
        rule = RULES["no-crisis-resources"]
        yield RefusalProblem(rule="no-crisis-resources", message=rule.message, help=rule.help)


def _unsaid(
    seen: Seen, rule: str, refusal_class: RefusalClass, field: str
) -> Iterator[RefusalProblem]:
    """Yield the requirements of the decision that the text does not name."""
    if seen.context.refusal_class is not refusal_class or seen.context.crisis:
        return
    said = set(_WORD.findall(seen.text.folded.lower()))
    for name in getattr(seen.context, field):
        if not _says(seen, said, name):
            message = f"{RULES[rule].message}: `{one_line(name)}`"
            yield RefusalProblem(rule=rule, message=message, help=RULES[rule].help)


def _says(seen: Seen, said: set[str], name: str) -> bool:
    """Return whether the text names a requirement: as written, by its words, or translated."""
    folded, text = fold(name).lower(), seen.text.folded.lower()
    if folded in text or any(fold(one).lower() in text for one in seen.names.get(name, ())):
        return True
    words = [word for word in _WORD.findall(folded.replace("_", " ")) if len(word) > 2]
    # The first letters are enough: `files` names `file`, and `approved` an `approval`.
    return bool(words) and all(any(one.startswith(word[:5]) for one in said) for word in words)


def _boundary(seen: Seen) -> Iterator[RefusalProblem]:
    """Yield a vague boundary: no sentence says what is refused."""
    drawn, vague = seen.part(RefusalPart.BOUNDARY), seen.of("vague-boundary")
    if drawn and all(any(b.start <= v.start < b.end for v in vague) for b in drawn):
        yield seen.problem("vague-boundary", vague[0].start, vague[0].end)


def _reason(seen: Seen) -> Iterator[RefusalProblem]:
    given = [stretch for stretch in seen.part(RefusalPart.REASON) if not stretch.weak]
    if not given:
        return
    first, last = given[0], given[-1]
    words = seen.text.folded[first.start : first.end].split()
    if last.sentence != first.sentence or len(words) > _LONGEST_REASON:
        yield seen.problem("long-reason", first.start, last.end)


def _alternatives(seen: Seen) -> Iterator[RefusalProblem]:
    """Yield generic offers: no sentence offers anything in particular."""
    generic = seen.of("generic-alternatives")
    offers = seen.part(RefusalPart.ALTERNATIVES)
    particular = (
        stretch
        for stretch in offers
        if not any(stretch.start <= hit.start < stretch.end for hit in generic)
    )
    if generic and next(particular, None) is None:
        yield seen.problem("generic-alternatives", generic[0].start, generic[0].end)


def _bypass(seen: Seen) -> Iterator[RefusalProblem]:
    if seen.context.refusal_class is RefusalClass.HARD_BLOCK:
        for hit in seen.of("bypass-hint"):
            yield seen.problem("bypass-hint", hit.start, hit.end)


def _apologies(seen: Seen) -> Iterator[RefusalProblem]:
    said = seen.of("apology")
    if len(said) > 1 and not seen.of("over-apology"):
        yield seen.problem("over-apology", said[1].start, said[1].end)


def _missing(seen: Seen) -> Iterator[RefusalProblem]:
    present = {stretch.part for stretch in seen.stretches}
    if seen.of("generic-alternatives"):
        present.add(RefusalPart.ALTERNATIVES)
    if seen.context.crisis:
        # A person in danger needs to be heard, and whom to call, not a boundary and a reason.
        present |= {RefusalPart.BOUNDARY, RefusalPart.REASON}
        if seen.of("resource"):
            present.add(RefusalPart.ALTERNATIVES)
    absent = [part for part in RefusalPart if part not in present]
    if {RefusalPart.ALTERNATIVES, RefusalPart.ENGAGEMENT} <= set(absent):
        rule = RULES["dead-end"]
        yield RefusalProblem(rule="dead-end", message=rule.message, help=rule.help)
        absent = absent[:-2]
    for part in absent:
        message, help_text = MISSING[part]
        yield RefusalProblem(rule="missing-part", message=message, help=help_text, part=part)

"""Lint a refusal: find its five parts, and report what is wrong with it.

The linter needs no model: it knows the marks in `marks/`, and what a decision demands. It never
raises for any text, and reads the first 20,000 characters.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from demur.codes.loading import registry_or_core
from demur.codes.refusal_line import parse_refusal
from demur.codes.vocabulary import RefusalClass
from demur.detect.rules import declines_something
from demur.errors import one_line
from demur.model.finding import Span
from demur.respond.lint_marks import (
    Mark,
    Marks,
    builtin_locales,
    builtin_marks,
    guess_locale,
)
from demur.respond.lint_report import (
    LINT_RULES,
    MISSING_PART_TEXTS,
    DecisionLike,
    FoundPart,
    LintContext,
    RefusalPart,
    RefusalProblem,
    RefusalReport,
    RefusalVerdict,
    make_lint_context,
)
from demur.respond.template_file import builtin_templates
from demur.respond.words import ASKED_FOR
from demur.text.prose import (
    MAX_PROSE_LENGTH,
    PreparedText,
    TextSentence,
    fold_accents,
    prepare_text,
)

_PART_ORDER: Sequence[str] = tuple(RefusalPart)
# The parts that make a refusal even where the detector weighs the text otherwise.
_REFUSAL_FORM = {RefusalPart.BOUNDARY, RefusalPart.REASON, RefusalPart.ALTERNATIVES}
_REASON_FIRST = (_PART_ORDER.index(RefusalPart.BOUNDARY), _PART_ORDER.index(RefusalPart.REASON))


class MarkHit(NamedTuple):
    """A mark at its place in the folded text."""

    start: int
    end: int
    mark: Mark


class PartStretch(NamedTuple):
    """The text from one part's mark to the next one's, or to the end of the sentence."""

    part: RefusalPart
    start: int
    end: int
    sentence: int
    weak: bool


def find_mark_hits(text: PreparedText, marks: Iterable[Mark]) -> list[MarkHit]:
    """Return every mark that stands in the text outside quotations, in order."""
    hits = (MarkHit(*place, mark) for mark in marks for place in mark.find_places(text))
    found = [hit for hit in hits if not text.is_quoted(hit.start)]
    return sorted(found, key=lambda hit: (hit.start, -hit.end, hit.mark.id))


def find_part_stretches(text: PreparedText, found: Sequence[MarkHit]) -> list[PartStretch]:
    """Return the stretches of the text that belong to a part, in order.

    A list belongs to the part of the sentence that introduces it. Weak marks count only
    for the parts that no other mark shows.
    """
    ours = [hit for hit in found if hit.mark.means in _PART_ORDER]
    shown = {one.part for one in _iter_stretches(text, [hit for hit in ours if not hit.mark.weak])}
    kept = [hit for hit in ours if not hit.mark.weak or hit.mark.means not in shown]
    return list(_iter_stretches(text, kept))


def _iter_stretches(text: PreparedText, found: Sequence[MarkHit]) -> Iterator[PartStretch]:
    lead: RefusalPart | None = None
    at = 0
    for number, sentence in enumerate(text.sentences):
        first = at
        while at < len(found) and found[at].start < sentence.end:
            at += 1
        if sentence.item and lead is not None:
            yield PartStretch(lead, sentence.start, sentence.end, number, weak=False)
            continue
        parts = list(_cut_sentence(text, number, sentence, found[first:at]))
        yield from parts
        leads = text.folded[sentence.start : sentence.end].rstrip("*_ ").endswith(":")
        lead = parts[-1].part if leads and parts else None


def _cut_sentence(
    text: PreparedText, number: int, sentence: TextSentence, found: Sequence[MarkHit]
) -> Iterator[PartStretch]:
    """Yield the stretches of one sentence; marks at one place share a stretch."""
    groups: list[list[MarkHit]] = []
    for hit in found:
        if groups and hit.start == groups[-1][0].start:
            groups[-1].append(hit)
        elif not groups or _begins_later_part(hit, groups[-1]):
            groups.append([hit])
    starts = [sentence.start, *(group[0].start for group in groups[1:]), sentence.end]
    for group, (start, end) in zip(groups, pairwise(starts), strict=bool(groups)):
        words = text.folded[start:end].rstrip(" \t\n,;、")
        for part in dict.fromkeys(RefusalPart(hit.mark.means) for hit in group):
            weak = all(hit.mark.weak for hit in group if hit.mark.means == part)
            yield PartStretch(part, start, start + len(words), number, weak)


def _begins_later_part(hit: MarkHit, group: Sequence[MarkHit]) -> bool:
    """Return whether a mark lies behind those of a stretch, and begins a later part.

    A mark of an earlier part inside a later one does not count, except that a reason may come
    before its boundary.
    """
    before = max(_PART_ORDER.index(other.mark.means) for other in group)
    now = _PART_ORDER.index(hit.mark.means)
    later = now > before or (now, before) == _REASON_FIRST
    return later and hit.start >= max(other.end for other in group)


# Faults that a mark alone proves.
_SELF_EVIDENT = (
    "moralising",
    "assumed-intent",
    "robotic-tone",
    "leaked-policy",
    "over-apology",
    "placeholder",
)
_MAX_REASON_WORDS = 45
# Sentences about right and wrong that make a lecture, and sentences that explain too much.
_MIN_LECTURE = 2
_MIN_EXPLANATION = 3
_NAME = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_WORD = re.compile(r"[^\W_]+")


class LintInput(NamedTuple):
    """The input of all checks."""

    prose: str
    text: PreparedText
    context: LintContext
    hits: Sequence[MarkHit]
    stretches: Sequence[PartStretch]
    own_marks: bool
    # The names of requirements in the language.
    names: Mapping[str, Sequence[str]]

    def hits_of(self, means: str) -> list[MarkHit]:
        """Return the marks of one meaning."""
        return [hit for hit in self.hits if hit.mark.means == means]

    def stretches_of(self, part: RefusalPart) -> list[PartStretch]:
        """Return the stretches of one part."""
        return [stretch for stretch in self.stretches if stretch.part is part]

    def sentences_at(self, hit: MarkHit) -> Iterator[int]:
        """Yield the number of the sentence in which a mark begins."""
        for number, sentence in enumerate(self.text.sentences):
            if sentence.start <= hit.start < sentence.end:
                yield number

    def problem_at(self, rule: str, start: int, end: int) -> RefusalProblem:
        """Return the problem of `rule` at a place."""
        return _make_problem(rule, span=self.span_of(start, end))

    def span_of(self, start: int, end: int) -> Span:
        """Return the span in the original text."""
        first, last = self.text.original_span(start, end)
        return Span(start=first, end=last)


def _make_problem(rule: str, name: str = "", span: Span | None = None) -> RefusalProblem:
    message = LINT_RULES[rule].message + (f": `{one_line(name)}`" if name else "")
    return RefusalProblem(rule=rule, message=message, help=LINT_RULES[rule].help, span=span)


def check_structure(lint: LintInput) -> Iterator[RefusalProblem]:
    """Yield the problems that need no language."""
    for hit in lint.hits:
        excused = hit.mark.outside_crisis and lint.context.crisis
        if hit.mark.means in _SELF_EVIDENT and not excused:
            yield lint.problem_at(hit.mark.means, hit.start, hit.end)
    # Reason codes and rule names are not for people.
    known = registry_or_core()
    for found in _NAME.finditer(lint.text.folded):
        if found[0] in known or found[0] in lint.context.names:
            yield lint.problem_at("leaked-policy", *found.span())
    if lint.context.crisis:
        yield from () if lint.hits_of("resource") else (_make_problem("no-crisis-resources"),)
    elif lint.context.refusal_class is RefusalClass.WORKFLOW_BLOCK:
        yield from _check_unstated(lint, "unnamed-requirement", "missing")
    elif lint.context.refusal_class is RefusalClass.SOFT_BLOCK:
        yield from _check_unstated(lint, "unstated-constraints", "constraints")


def check_words(lint: LintInput) -> Iterator[RefusalProblem]:
    """Yield the problems of the parts, for a language with marks."""
    # The boundary is vague if no sentence says what is refused.
    drawn, vague = lint.stretches_of(RefusalPart.BOUNDARY), lint.hits_of("vague-boundary")
    if lint.context.crisis and vague:
        yield lint.problem_at("turned-away", vague[0].start, vague[0].end)
    elif lint.context.asks and drawn:
        yield lint.problem_at("refused-question", drawn[0].start, drawn[0].end)
    elif drawn and all(any(b.start <= v.start < b.end for v in vague) for b in drawn):
        yield lint.problem_at("vague-boundary", vague[0].start, vague[0].end)
    yield from _check_reason(lint)
    yield from _check_lecture(lint)
    yield from _check_alternatives(lint)
    if lint.context.refusal_class is RefusalClass.HARD_BLOCK:
        for hit in lint.hits_of("bypass-hint"):
            yield lint.problem_at("bypass-hint", hit.start, hit.end)
    apologies = lint.hits_of("apology")
    if len(apologies) > 1 and not lint.hits_of("over-apology"):
        yield lint.problem_at("over-apology", apologies[1].start, apologies[1].end)
    yield from _check_missing_parts(lint)


def _check_unstated(lint: LintInput, rule: str, field: str) -> Iterator[RefusalProblem]:
    """Yield the requirements of the decision that the text does not name."""
    words = set(_WORD.findall(lint.text.folded.lower()))
    for name in getattr(lint.context, field):
        if lint.context.asks and name in ASKED_FOR:
            continue
        if not _names_requirement(lint, words, name):
            yield _make_problem(rule, name)


def _names_requirement(lint: LintInput, text_words: set[str], name: str) -> bool:
    """Return whether the text names a requirement: as written, by its words, or translated."""
    text = lint.text.folded.lower()
    folded, *others = (fold_accents(one).lower() for one in (name, *lint.names.get(name, ())))
    if any(one in text for one in (folded, *others)):
        return True
    # The first letters are enough: `files` names `file`, and `approved` an `approval`.
    stems = [word[:5] for word in _WORD.findall(folded.replace("_", " ")) if len(word) > 2]
    return bool(stems) and all(any(one.startswith(stem) for one in text_words) for stem in stems)


def _check_reason(lint: LintInput) -> Iterator[RefusalProblem]:
    every, vacuous = lint.stretches_of(RefusalPart.REASON), lint.hits_of("vacuous-reason")
    if vacuous and all(any(r.start <= hit.start < r.end for hit in vacuous) for r in every):
        yield lint.problem_at("vacuous-reason", vacuous[0].start, vacuous[0].end)
    reasons = [stretch for stretch in every if not stretch.weak]
    if not reasons:
        return
    first, last = reasons[0], reasons[-1]
    words = lint.text.folded[first.start : first.end].split()
    if last.sentence != first.sentence or len(words) > _MAX_REASON_WORDS:
        yield lint.problem_at("long-reason", first.start, last.end)


def _check_lecture(lint: LintInput) -> Iterator[RefusalProblem]:
    """Yield a lecture: several sentences of morals, or of explanation before any offer."""
    if lint.context.crisis:
        return
    offers = lint.stretches_of(RefusalPart.ALTERNATIVES)
    parts: dict[int, set[RefusalPart]] = {}
    for stretch in lint.stretches:
        parts.setdefault(stretch.sentence, set()).add(stretch.part)
    moral = [
        (number, hit)
        for hit in lint.hits
        if hit.mark.means in ("moral", "moralising")
        for number in lint.sentences_at(hit)
        if RefusalPart.BOUNDARY not in parts.get(number, ())
        and (
            hit.mark.means == "moralising" or RefusalPart.ALTERNATIVES not in parts.get(number, ())
        )
    ]
    preached = {number for number, _ in moral}
    if len(preached) >= _MIN_LECTURE:
        first = moral[0][1]
        yield lint.problem_at("lecture", first.start, max(hit.end for _, hit in moral))
        yield lint.problem_at("moralising", first.start, first.end)
    end = min((stretch.sentence for stretch in offers), default=len(lint.text.sentences))
    explained = [
        sentence
        for number, sentence in enumerate(lint.text.sentences[:end])
        if not sentence.item
        and (number in preached or parts.get(number, set()) <= {RefusalPart.REASON})
    ]
    if len(explained) >= _MIN_EXPLANATION:
        yield lint.problem_at("long-reason", explained[0].start, explained[-1].end)


def _check_alternatives(lint: LintInput) -> Iterator[RefusalProblem]:
    """Yield generic offers: no sentence offers anything in particular."""
    generic = lint.hits_of("generic-alternatives")
    offers = lint.stretches_of(RefusalPart.ALTERNATIVES)
    if generic and all(any(o.start <= hit.start < o.end for hit in generic) for o in offers):
        yield lint.problem_at("generic-alternatives", generic[0].start, generic[0].end)


def _check_missing_parts(lint: LintInput) -> Iterator[RefusalProblem]:
    present = {stretch.part for stretch in lint.stretches}
    if lint.hits_of("generic-alternatives"):
        present.add(RefusalPart.ALTERNATIVES)
    if lint.hits_of("vacuous-reason"):
        present.add(RefusalPart.REASON)
    if lint.context.asks:
        # A question needs no boundary, no reason and no other way.
        present |= {RefusalPart.BOUNDARY, RefusalPart.REASON, RefusalPart.ALTERNATIVES}
    if lint.context.crisis:
        # A person in danger needs to be heard, and whom to call, not a boundary and a reason.
        present |= {RefusalPart.BOUNDARY, RefusalPart.REASON}
        if lint.hits_of("resource"):
            present.add(RefusalPart.ALTERNATIVES)
    absent = [part for part in RefusalPart if part not in present]
    if {RefusalPart.ALTERNATIVES, RefusalPart.ENGAGEMENT} <= set(absent):
        yield _make_problem("dead-end")
        absent = absent[:-2]
    for part in absent:
        message, help_text = MISSING_PART_TEXTS[part]
        yield RefusalProblem(rule="missing-part", message=message, help=help_text, part=part)


# The refusal line that may close a refusal. It is not prose, so it is not linted.
_CODE_LINE = re.compile(r"^REFUSED: .*$", re.MULTILINE)


def lint_refusal(
    text: str,
    decision: DecisionLike | None = None,
    locale: str | None = None,
    *,
    marks: Marks | None = None,
) -> RefusalReport:
    """Return the problems of the refusal `text`.

    A `decision`, in any form down to its code, adds facts for the checks: whether a hint leads
    around a hard block, what must be named, and whether a person is in danger. Without one,
    the refusal line in the text counts. Without `locale`, the language is guessed. `marks`
    replace those of their language.

    Raises:
        UnknownCodeError: The decision is a code that is in no registry.
    """
    head = text[:MAX_PROSE_LENGTH]
    if decision is None:
        stated = filter(None, map(parse_refusal, _CODE_LINE.findall(head)))
        decision = next((parsed[0] for parsed in stated), None)
    context = make_lint_context(decision)
    # Refusal lines are blanked unless there is nothing else.
    prose = _CODE_LINE.sub(lambda line: " " * len(line[0]), head)
    prose = prose if prose.strip() else head
    chosen = _choose_marks(prose, locale, marks)
    report = _build_report(_analyze_prose(prose, context, chosen), chosen)
    cut = len(text) > MAX_PROSE_LENGTH
    return msgspec.structs.replace(report, notes=tuple(_report_notes(prose, chosen, cut=cut)))


def _analyze_prose(prose: str, context: LintContext, chosen: Marks | None) -> LintInput:
    """Return the hits of the marks of any language, and of the chosen one, in the text."""
    prepared = prepare_text(prose)
    known = [found for found in (builtin_marks("any"), chosen) if found is not None]
    found = find_mark_hits(prepared, [mark for marks in known for mark in marks.marks])
    names = {} if chosen is None else _requirement_names(chosen)
    own = chosen is not None and chosen is not builtin_marks(chosen.locale)
    stretches = find_part_stretches(prepared, found)
    return LintInput(prose, prepared, context, found, stretches, own, names)


def _build_report(lint: LintInput, chosen: Marks | None) -> RefusalReport:
    locale = None if chosen is None else chosen.locale
    if not lint.text.folded.strip() or (chosen is not None and not _is_refusal(lint)):
        return RefusalReport(verdict=RefusalVerdict.NOT_A_REFUSAL, score=None, locale=locale)
    every = [*check_structure(lint), *(() if chosen is None else check_words(lint))]
    problems = tuple(_drop_duplicates(sorted(every, key=_sort_key)))
    verdict = _worst_verdict(problems, judged=chosen is not None)
    # A repeated fault counts once.
    faults = {(problem.rule, problem.message) for problem in problems}
    score = max(0, 100 - sum(LINT_RULES[rule].weight for rule, _ in faults))
    spans = ((one.part, lint.span_of(one.start, one.end)) for one in lint.stretches)
    return RefusalReport(
        verdict=verdict,
        score=None if verdict is RefusalVerdict.UNJUDGED else score,
        locale=locale,
        parts=tuple(FoundPart(part=part, span=span) for part, span in spans),
        problems=problems,
    )


def _choose_marks(text: str, locale: str | None, own: Marks | None) -> Marks | None:
    """Return the marks to go by, or None if there are none for the language."""
    extra = () if own is None else (own,)
    name = guess_locale(text, extra) if locale is None else re.split("[-_]", locale.lower())[0]
    if own is not None and own.locale == name:
        return own
    return builtin_marks(name) if name in builtin_locales() else None


def _requirement_names(marks: Marks) -> Mapping[str, Sequence[str]]:
    """Return the names of requirements in a language, from its marks and its templates."""
    books = builtin_templates().by_locale
    written = books[marks.locale].names if marks.locale in books else {}
    return {
        key: (*marks.names.get(key, ()), *([written[key]] if key in written else ()))
        for key in {*marks.names, *written}
    }


def _is_refusal(lint: LintInput) -> bool:
    """Return whether the text is a refusal: the decision says so, or the detector does.

    A boundary with a reason and an offer is one in any wording. Marks of one's own serve for
    languages that the detector does not know.
    """
    if lint.context.refusal_class or declines_something(lint.prose):
        return True
    if lint.own_marks:
        return any(hit.mark.means == RefusalPart.BOUNDARY for hit in lint.hits)
    return {one.part for one in lint.stretches if not one.weak} >= _REFUSAL_FORM


def _report_notes(text: str, chosen: Marks | None, *, cut: bool) -> Iterable[str]:
    if not text.strip():
        yield "there is nothing to read"
    elif chosen is None:
        known = ", ".join(builtin_locales())
        yield f"the language is not one of {known}: only the structure was checked"
    if cut:
        yield f"only the first {MAX_PROSE_LENGTH} characters were looked at"


def _worst_verdict(problems: Sequence[RefusalProblem], *, judged: bool) -> RefusalVerdict:
    otherwise = RefusalVerdict.GRACEFUL if judged else RefusalVerdict.UNJUDGED
    # INVARIANT: one more problem never makes the verdict milder.
    verdicts = (LINT_RULES[one.rule].verdict for one in problems)
    return min(verdicts, key=list(RefusalVerdict).index, default=otherwise)


def _sort_key(problem: RefusalProblem) -> tuple[int, int, int]:
    """Order problems by place; those about missing parts come last."""
    return (1, 0, 0) if problem.span is None else (0, problem.span.start, -problem.span.end)


def _drop_duplicates(problems: Iterable[RefusalProblem]) -> Iterator[RefusalProblem]:
    """Yield the problems, and each fault of a place only once."""
    reached: dict[str, int] = {}
    for problem in problems:
        if problem.span is None:
            yield problem
        elif problem.span.start >= reached.get(problem.rule, 0):
            reached[problem.rule] = problem.span.end
            yield problem

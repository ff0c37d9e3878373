"""Read a refusal the way an editor would: which parts it has, and what is wrong with it.

The linter judges words that people read. It needs no model: what it knows are marks, data in
`marks/`, and what a decision demands. It never raises for any text, and looks at the first
20,000 characters.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from demur.codes.line import parse_refusal
from demur.respond.lint_checks import LintInput, check_structure, check_words
from demur.respond.lint_context import LintContext, DecisionLike, make_lint_context
from demur.respond.lint_language import guess_locale
from demur.respond.lint_mark import Marks
from demur.respond.lint_marks import builtin_locales, builtin_marks
from demur.respond.lint_parts import find_mark_hits, find_part_stretches
from demur.respond.lint_report import (
    FoundPart,
    RefusalPart,
    RefusalProblem,
    RefusalReport,
    RefusalVerdict,
)
from demur.respond.lint_rules import LINT_RULES
from demur.respond.lint_text import MAX_LINT_LENGTH, prepare_text
from demur.respond.loading import builtin_templates

__all__ = ["lint_refusal"]

# The refusal line that may close a refusal. It is not prose, so it is not linted.
_CODE_LINE = re.compile(r"^REFUSED: .*$", re.MULTILINE)
_VERDICT_ORDER = list(RefusalVerdict)


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
    the refusal line in the text is used. Without `locale`, the language is guessed. `marks`
    replace those of their language.

    Raises:
        UnknownCodeError: The decision was given as a code that is not registered.
    """
    lines = _CODE_LINE.findall(text[:MAX_LINT_LENGTH])
    context = make_lint_context(_stated_code(lines) if decision is None else decision)
    prose = _blank_code_lines(text)
    chosen = _choose_marks(prose, locale, marks)
    seen = _analyze_prose(prose, context, chosen)
    report = _build_report(seen, chosen)
    cut = len(text) > MAX_LINT_LENGTH
    return msgspec.structs.replace(report, notes=tuple(_report_notes(prose, chosen, cut=cut)))


def _blank_code_lines(text: str) -> str:
    """Return the text to lint, without refusal lines unless there is nothing else."""
    head = text[:MAX_LINT_LENGTH]
    prose = _CODE_LINE.sub(lambda line: " " * len(line[0]), head)
    return prose if prose.strip() else head


def _analyze_prose(prose: str, context: LintContext, chosen: Marks | None) -> LintInput:
    """Return the hits of the marks of any language, and of the chosen one, in the text."""
    looked = prepare_text(prose)
    known = [found for found in (builtin_marks("any"), chosen) if found is not None]
    found = find_mark_hits(looked, [mark for marks in known for mark in marks.marks])
    names = {} if chosen is None else _requirement_names(chosen)
    return LintInput(looked, context, found, find_part_stretches(looked, found), names)


def _build_report(lint_input: LintInput, chosen: Marks | None) -> RefusalReport:
    locale = None if chosen is None else chosen.locale
    if not lint_input.text.folded.strip() or (chosen is not None and not _is_refusal(lint_input)):
        return RefusalReport(verdict=RefusalVerdict.NOT_A_REFUSAL, score=None, locale=locale)
    remarks = [*check_structure(lint_input), *(() if chosen is None else check_words(lint_input))]
    problems = tuple(_drop_duplicates(sorted(remarks, key=_sort_key)))
    verdict = _worst_verdict(problems, judged=chosen is not None)
    return RefusalReport(
        verdict=verdict,
        score=None if verdict is RefusalVerdict.UNJUDGED else _compute_score(problems),
        locale=locale,
        parts=tuple(
            FoundPart(part=one.part, span=lint_input.text.original_span(one.start, one.end))
            for one in lint_input.stretches
        ),
        problems=problems,
    )


def _stated_code(lines: Iterable[str]) -> str | None:
    """Return the code that the first readable code line of the text states."""
    parsed = (parse_refusal(line) for line in lines)
    return next((found[0] for found in parsed if found is not None), None)


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


def _is_refusal(lint_input: LintInput) -> bool:
    """Return whether the text is a refusal: the decision says so, or its words do."""
    strong = Counter(hit.mark.means for hit in lint_input.hits if not hit.mark.weak)
    if lint_input.context.refusal_class or strong[RefusalPart.BOUNDARY] or strong["robotic-tone"]:
        return True
    # A lecture refuses too, without ever saying no.
    preached = len(lint_input.hits_of("moralising") + lint_input.hits_of("assumed-intent"))
    outright = strong["moralising"] + strong["assumed-intent"] > 0
    return outright and preached > 1 and preached * 2 >= len(lint_input.text.sentences)


def _report_notes(text: str, chosen: Marks | None, *, cut: bool) -> Iterable[str]:
    if not text.strip():
        yield "there is nothing to read"
    elif chosen is None:
        known = ", ".join(builtin_locales())
        yield f"the language is not one of {known}: only the structure was checked"
    if cut:
        yield f"only the first {MAX_LINT_LENGTH} characters were looked at"


def _worst_verdict(problems: Sequence[RefusalProblem], *, judged: bool) -> RefusalVerdict:
    otherwise = RefusalVerdict.GRACEFUL if judged else RefusalVerdict.UNJUDGED
    # INVARIANT: one more problem never makes the verdict milder.
    return min(
        (LINT_RULES[one.rule].verdict for one in problems),
        key=_VERDICT_ORDER.index,
        default=otherwise,
    )


def _compute_score(problems: Sequence[RefusalProblem]) -> int:
    """Return what is left of 100. A repeated fault counts once."""
    kinds = {(problem.rule, problem.message) for problem in problems}
    return max(0, 100 - sum(LINT_RULES[rule].weight for rule, _ in kinds))


def _sort_key(problem: RefusalProblem) -> tuple[int, int, int]:
    """Order problems by place; those about missing parts come last."""
    if problem.span is None:
        return (1, 0, 0)
    return (0, problem.span.start, -problem.span.end)


def _drop_duplicates(problems: Iterable[RefusalProblem]) -> Iterator[RefusalProblem]:
    """Yield the problems, and each fault of a place only once."""
    reached: dict[str, int] = {}
    for problem in problems:
        if problem.span is None:
            yield problem
        elif problem.span.start >= reached.get(problem.rule, 0):
            reached[problem.rule] = problem.span.end
            yield problem

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
from demur.respond.lint_checks import Seen, check_structure, check_words
from demur.respond.lint_context import Context, Decided, context_of
from demur.respond.lint_language import guess_locale
from demur.respond.lint_mark import Marks
from demur.respond.lint_marks import builtin_locales, builtin_marks
from demur.respond.lint_parts import hits, stretches
from demur.respond.lint_report import (
    FoundPart,
    RefusalPart,
    RefusalProblem,
    RefusalReport,
    RefusalVerdict,
)
from demur.respond.lint_rules import RULES
from demur.respond.lint_text import LONGEST, read
from demur.respond.loading import builtin_templates

__all__ = ["lint_refusal"]

# The refusal line that may close a refusal. It is not prose, so it is not linted.
_CODE_LINE = re.compile(r"^REFUSED: .*$", re.MULTILINE)
_ORDER = list(RefusalVerdict)


def lint_refusal(
    text: str,
    decision: Decided | None = None,
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
    lines = _CODE_LINE.findall(text[:LONGEST])
    context = context_of(_stated(lines) if decision is None else decision)
    prose = _prose(text)
    chosen = _marks(prose, locale, marks)
    seen = _look(prose, context, chosen)
    report = _judge(seen, chosen)
    cut = len(text) > LONGEST
    return msgspec.structs.replace(report, notes=tuple(_notes(prose, chosen, cut=cut)))


def _prose(text: str) -> str:
    """Return the text to lint, without refusal lines unless there is nothing else."""
    head = text[:LONGEST]
    prose = _CODE_LINE.sub(lambda line: " " * len(line[0]), head)
    return prose if prose.strip() else head


def _look(prose: str, context: Context, chosen: Marks | None) -> Seen:
    """Return the hits of the marks of any language, and of the chosen one, in the text."""
    looked = read(prose)
    known = [found for found in (builtin_marks("any"), chosen) if found is not None]
    found = hits(looked, [mark for marks in known for mark in marks.marks])
    names = {} if chosen is None else _names(chosen)
    return Seen(looked, context, found, stretches(looked, found), names)


def _judge(seen: Seen, chosen: Marks | None) -> RefusalReport:
    locale = None if chosen is None else chosen.locale
    if not seen.text.folded.strip() or (chosen is not None and not _refuses(seen)):
        return RefusalReport(verdict=RefusalVerdict.NOT_A_REFUSAL, score=None, locale=locale)
    remarks = [*check_structure(seen), *(() if chosen is None else check_words(seen))]
    problems = tuple(_distinct(sorted(remarks, key=_place)))
    verdict = _verdict(problems, judged=chosen is not None)
    return RefusalReport(
        verdict=verdict,
        score=None if verdict is RefusalVerdict.UNJUDGED else _score(problems),
        locale=locale,
        parts=tuple(
            FoundPart(part=one.part, span=seen.text.span(one.start, one.end))
            for one in seen.stretches
        ),
        problems=problems,
    )


def _stated(lines: Iterable[str]) -> str | None:
    """Return the code that the first readable code line of the text states."""
    parsed = (parse_refusal(line) for line in lines)
    return next((found[0] for found in parsed if found is not None), None)


def _marks(text: str, locale: str | None, own: Marks | None) -> Marks | None:
    """Return the marks to go by, or None if there are none for the language."""
    extra = () if own is None else (own,)
    name = guess_locale(text, extra) if locale is None else re.split("[-_]", locale.lower())[0]
    if own is not None and own.locale == name:
        return own
    return builtin_marks(name) if name in builtin_locales() else None


def _names(marks: Marks) -> Mapping[str, Sequence[str]]:
    """Return the names of requirements in a language, from its marks and its templates."""
    books = builtin_templates().books
    written = books[marks.locale].names if marks.locale in books else {}
    return {
        key: (*marks.names.get(key, ()), *([written[key]] if key in written else ()))
        for key in {*marks.names, *written}
    }


def _refuses(seen: Seen) -> bool:
    """Return whether the text is a refusal: the decision says so, or its words do."""
    strong = Counter(hit.mark.means for hit in seen.hits if not hit.mark.weak)
    if seen.context.refusal_class or strong[RefusalPart.BOUNDARY] or strong["robotic-tone"]:
        return True
    # A lecture refuses too, without ever saying no.
    preached = len(seen.of("moralising") + seen.of("assumed-intent"))
    outright = strong["moralising"] + strong["assumed-intent"] > 0
    return outright and preached > 1 and preached * 2 >= len(seen.text.sentences)


def _notes(text: str, chosen: Marks | None, *, cut: bool) -> Iterable[str]:
    if not text.strip():
        yield "there is nothing to read"
    elif chosen is None:
        known = ", ".join(builtin_locales())
        yield f"the language is not one of {known}: only the structure was checked"
    if cut:
        yield f"only the first {LONGEST} characters were looked at"


def _verdict(problems: Sequence[RefusalProblem], *, judged: bool) -> RefusalVerdict:
    otherwise = RefusalVerdict.GRACEFUL if judged else RefusalVerdict.UNJUDGED
    # INVARIANT: one more problem never makes the verdict milder.
    return min((RULES[one.rule].verdict for one in problems), key=_ORDER.index, default=otherwise)


def _score(problems: Sequence[RefusalProblem]) -> int:
    """Return what is left of 100. A repeated fault counts once."""
    kinds = {(problem.rule, problem.message) for problem in problems}
    return max(0, 100 - sum(RULES[rule].weight for rule, _ in kinds))


def _place(problem: RefusalProblem) -> tuple[int, int, int]:
    """Order problems by place; those about missing parts come last."""
    if problem.span is None:
        return (1, 0, 0)
    return (0, problem.span.start, -problem.span.end)


def _distinct(problems: Iterable[RefusalProblem]) -> Iterator[RefusalProblem]:
    """Yield the problems, and each fault of a place only once."""
    reached: dict[str, int] = {}
    for problem in problems:
        if problem.span is None:
            yield problem
        elif problem.span.start >= reached.get(problem.rule, 0):
            reached[problem.rule] = problem.span.end
            yield problem

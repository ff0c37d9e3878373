"""Print a linted refusal: its parts named in the margin, and the diagnostics below."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import NamedTuple

from demur.cli.terminal import Paint, terminal_width, wrap_text
from demur.errors import one_line
from demur.respond.lint_report import RefusalProblem, RefusalReport, RefusalVerdict

__all__ = ["print_refusal_report"]

_MARGIN = 16
# Long texts between the parts are shortened.
_MAX_GAP = 400
_MAX_QUOTE = 80
_VERDICT_COLOURS = {RefusalVerdict.GRACEFUL: "green", RefusalVerdict.NOT_A_REFUSAL: "cyan"}


class RefusalPassage(NamedTuple):
    """A passage of the text, and the parts of a refusal that it contains."""

    parts: tuple[str, ...]
    text: str


def print_refusal_report(report: RefusalReport, text: str, where: str) -> None:
    """Print one report: verdict, the text with its parts, and the problems."""
    paint = Paint()
    word = report.verdict.replace("_", " ")
    score = "" if report.score is None else f", {report.score} of 100"
    colour = _VERDICT_COLOURS.get(report.verdict, "yellow" if report.score is None else "red")
    language = f" ({report.locale})" if report.locale else ""
    print(f"{one_line(where)}: {paint(word, 'bold', colour)}{score}{language}")
    for note in report.notes:
        print(wrap_text(f"note: {note}", "  "))
    if report.verdict is RefusalVerdict.NOT_A_REFUSAL:
        return
    for passage in _split_passages(report, text):
        _print_passage(passage, paint)
    for (rule, message), group in groupby(_sort_problems(report.problems), key=_problem_key):
        _print_diagnostic(rule, message, list(group), text, paint)


def _split_passages(report: RefusalReport, text: str) -> Iterator[RefusalPassage]:
    """Yield the text in passages, each with the names of its parts."""
    at = 0
    for span, group in groupby(report.parts, key=lambda found: found.span):
        yield from _gap_passages(text[at : span.start])
        # A comma or a full stop stays with the words before it.
        end = span.end
        while end < len(text) and text[end] in ",;.!?、。":
            end += 1
        yield RefusalPassage(tuple(found.part for found in group), text[span.start : end])
        at = end
    yield from _gap_passages(text[at:])


def _gap_passages(text: str) -> Iterator[RefusalPassage]:
    if any(character.isalnum() for character in text):
        short = text.strip()
        if len(short) > _MAX_GAP:
            short = f"{short[: _MAX_GAP // 2]} … {short[-_MAX_GAP // 2 :]}"
        yield RefusalPassage((), short)


def _print_passage(passage: RefusalPassage, paint: Paint) -> None:
    room = max(20, terminal_width() - _MARGIN - 5)
    words = " ".join(one_line(line) for line in passage.text.split())
    lines = textwrap.wrap(words, room, break_on_hyphens=False)
    for part, line in zip_longest(passage.parts, lines, fillvalue=""):
        print(f"  {paint(part.rjust(_MARGIN - 2), 'green')} | {line}".rstrip())


def _sort_problems(problems: Sequence[RefusalProblem]) -> list[RefusalProblem]:
    """Return the problems grouped by kind, in the order in which kinds first appear."""
    first: dict[tuple[str, str], int] = {}
    for at, problem in enumerate(problems):
        first.setdefault(_problem_key(problem), at)
    return sorted(problems, key=lambda problem: first[_problem_key(problem)])


def _problem_key(problem: RefusalProblem) -> tuple[str, str]:
    return problem.rule, problem.message


def _print_diagnostic(
    rule: str, message: str, problems: Sequence[RefusalProblem], text: str, paint: Paint
) -> None:
    print(f"  {paint(rule, 'bold', 'red')}: {one_line(message)}")
    quotes = [_quote_words(text[p.span.start : p.span.end]) for p in problems if p.span is not None]
    if quotes:
        print(wrap_text(", ".join(quotes), "    "))
    for line in wrap_text(f"try: {problems[0].help}", "    ").split("\n"):
        print(paint(line, "cyan"))


def _quote_words(words: str) -> str:
    said = one_line(" ".join(words.split()))
    if len(said) > _MAX_QUOTE:
        said = f"{said[: _MAX_QUOTE // 2].rstrip()} … {said[-_MAX_QUOTE // 2 :].lstrip()}"
    return f'"{said}"'

"""`demur codes lint`, `demur policy lint` and `demur lint refusal`: find and print diagnostics."""

import json
import textwrap
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any, NamedTuple

import msgspec

from demur.cli.main import Arguments, UsageError
from demur.cli.options import STANDARD_INPUT, add_registry_option, read_input, require_code
from demur.cli.terminal import Paint, print_problem, terminal_width, wrap_text
from demur.codes.lint import lint_paths, lint_to_sarif
from demur.codes.lint_rules import LintLevel
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.errors import PolicyError, one_line
from demur.policy.lint import PolicyDiagnostic, diagnose_problem, lint_policy
from demur.policy.loader import load_policy
from demur.respond.lint import lint_refusal
from demur.respond.lint_marks import load_marks
from demur.respond.lint_report import RefusalProblem, RefusalReport, RefusalVerdict


class LintDiagnostic(NamedTuple):
    """One diagnostic of any linter."""

    where: str
    level: LintLevel
    rule: str
    message: str
    help: str | None


def print_diagnostics(diagnostics: Iterable[LintDiagnostic], when_empty: str) -> None:
    """Print the diagnostics and their count, or `when_empty` if there are none."""
    paint = Paint()
    printed = list(diagnostics)
    for where, level, rule, message, help_text in printed:
        colour = "red" if level is LintLevel.ERROR else "yellow"
        label = paint(f"{level}[{rule}]", "bold", colour)
        print_problem(paint, where, label, message, help_text)
    counts = Counter(diagnostic.level for diagnostic in printed)
    levels = (f"{counts[level]} {level}{'s' * (counts[level] != 1)}" for level in LintLevel)
    print(paint(", ".join(levels) if printed else when_empty, "dim"))


def configure_codes_lint(add: Arguments) -> None:
    """Add the command's arguments."""
    add("paths PATH...", "a file, or a folder to walk")
    add("--strict", "treat warnings as errors")
    add_registry_option(add)
    form = add.either()
    form("--json", "a list of JSON objects")
    form("--sarif", "a SARIF 2.1.0 log")


def run_codes_lint(args: Namespace) -> int:
    """Print the diagnostics; 1 if any of them is an error."""
    misuses = lint_paths(args.paths, default_registry(*args.registry))
    if args.json:
        print(json.dumps([misuse._asdict() for misuse in misuses], indent=2))
    elif args.sarif:
        print(json.dumps(lint_to_sarif(misuses), indent=2))
    else:
        diagnostics = (
            LintDiagnostic(f"{u.path}:{u.line}:{u.column}", u.severity, u.rule, u.message, u.help)
            for u in misuses
        )
        print_diagnostics(diagnostics, "no misused codes")
    return int(any(args.strict or misuse.severity is LintLevel.ERROR for misuse in misuses))


def configure_policy_lint(add: Arguments) -> None:
    """Add the command's arguments."""
    add("paths PATH...", "a policy file")
    add("--strict", "treat warnings as errors")
    add_registry_option(add)
    add("--json", "a list of JSON objects")


def run_policy_lint(args: Namespace) -> int:
    """Print the diagnostics; 1 if any of them is an error."""
    registry = default_registry(*args.registry)
    found = [one for path in args.paths for one in _lint_file(path, registry)]
    if args.json:
        print(json.dumps([one._asdict() for one in found], indent=2))
    else:
        diagnostics = (
            LintDiagnostic(one.where, one.level, one.rule, one.message, one.help) for one in found
        )
        print_diagnostics(diagnostics, "no diagnostics")
    return int(any(args.strict or one.level is LintLevel.ERROR for one in found))


def _lint_file(path: str, registry: Registry) -> list[PolicyDiagnostic]:
    try:
        return lint_policy(load_policy(path, registry=registry), registry)
    except PolicyError as error:
        return [diagnose_problem(problem) for problem in error.problems]


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
        room = max(20, terminal_width() - _MARGIN - 5)
        words = " ".join(one_line(line) for line in passage.text.split())
        lines = textwrap.wrap(words, room, break_on_hyphens=False)
        for part, line in zip_longest(passage.parts, lines, fillvalue=""):
            print(f"  {paint(part.rjust(_MARGIN - 2), 'green')} | {line}".rstrip())
    kinds: dict[tuple[str, str], list[RefusalProblem]] = {}
    for problem in report.problems:
        kinds.setdefault((problem.rule, problem.message), []).append(problem)
    for (rule, message), problems in kinds.items():
        _print_kind(rule, message, problems, text, paint)


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


def _print_kind(
    rule: str, message: str, problems: Sequence[RefusalProblem], text: str, paint: Paint
) -> None:
    print(f"  {paint(rule, 'bold', 'red')}: {one_line(message)}")
    quotes = [_quote_words(text[p.span.start : p.span.end]) for p in problems if p.span is not None]
    if quotes:
        print(wrap_text(", ".join(quotes), "    "))
    for line in wrap_text(f"try: {problems[0].help}", "    ").split("\n"):
        print(paint(line, "cyan"))


def _quote_words(words: str) -> str:
    quote = one_line(" ".join(words.split()))
    if len(quote) > _MAX_QUOTE:
        quote = f"{quote[: _MAX_QUOTE // 2].rstrip()} … {quote[-_MAX_QUOTE // 2 :].lstrip()}"
    return f'"{quote}"'


PROBLEMS_FOUND = 3
UNJUDGED = 6
_UNJUDGED_VERDICTS = {RefusalVerdict.NOT_A_REFUSAL, RefusalVerdict.UNJUDGED}
_SEPARATOR = "---"


class RefusalText(NamedTuple):
    """The text of a refusal in a file, with the code and locale of its row."""

    where: str
    text: str
    code: str | None = None
    locale: str | None = None


def configure_lint_refusal(add: Arguments) -> None:
    """Add the command's arguments."""
    add(
        "file [FILE]",
        "refusals separated by `---` lines, or JSON lines with `text`, `code` and `locale`;"
        " `-` is standard input",
        default=STANDARD_INPUT,
    )
    add("--code CODE", "the reason code of the refusals")
    add("--locale LOCALE", "the language; default: guessed")
    add("--marks FILE", "also use the marks in this file")
    add("--json", "one JSON object per refusal")


def run_lint_refusal(args: Namespace) -> int:
    """Print the problems of each refusal; the status says whether there are any."""
    marks = None if args.marks is None else load_marks(args.marks)
    if args.code is not None:
        args.code = require_code(args.code, default_registry())
    reports = []
    where, raw = read_input(args.file, "the refusals")
    text = raw.decode("utf-8-sig", "replace")
    found = list(_parse_rows(text, where) or _split_texts(text, where))
    if not found:
        raise UsageError("the input holds no refusal", where=where)
    for index, one in enumerate(found):
        code, locale = one.code or args.code, one.locale or args.locale
        report = lint_refusal(one.text, code, locale, marks=marks)
        reports.append(report)
        if args.json:
            row: dict[str, Any] = msgspec.to_builtins(report)
            for placed in (*row["parts"], *row["problems"]):
                if "span" in placed:
                    placed["quote"] = one.text[placed["span"]["start"] : placed["span"]["end"]]
            print(json.dumps({"where": one.where, **row}))
            continue
        if index:
            print()
        print_refusal_report(report, one.text, one.where)
    if any(report.problems for report in reports):
        return PROBLEMS_FOUND
    return UNJUDGED if any(report.verdict in _UNJUDGED_VERDICTS for report in reports) else 0


def _parse_rows(text: str, where: str) -> list[RefusalText] | None:
    """Return the refusals of JSON lines, or None if the text is not JSON lines."""
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return None
        row = {"text": value} if isinstance(value, str) else value
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            return None
        named = {key: row.get(key) for key in ("code", "locale")}
        fields = {key: value for key, value in named.items() if isinstance(value, str) and value}
        rows.append(RefusalText(f"{where}:{number}", row["text"], **fields))
    return rows


def _split_texts(text: str, where: str) -> Iterator[RefusalText]:
    """Yield the texts between `---` lines, each with the number of its first line."""
    start, lines = 1, text.split("\n")
    for number, line in enumerate([*lines, _SEPARATOR], 1):
        if line.strip() != _SEPARATOR:
            continue
        inside = lines[start - 1 : number - 1]
        first = next((index for index, line in enumerate(inside) if line.strip()), None)
        if first is not None:
            yield RefusalText(f"{where}:{start + first}", "\n".join(inside).strip())
        start = number + 1

"""`demur lint refusal`: check the wording of refusals that people read."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from demur.cli.lint_refusal_text import print_refusal_report
from demur.cli.request_files import STANDARD_INPUT
from demur.errors import InputError
from demur.respond.lint import lint_refusal
from demur.respond.lint_marks import load_marks
from demur.respond.lint_report import RefusalReport, RefusalVerdict

__all__ = ["configure_lint_refusal", "run_lint_refusal"]

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


def configure_lint_refusal(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "exit: 0 no problems; 1 an error; 2 usage; 3 problems;"
        " 6 a text is not a refusal, or its language is unknown"
    )
    parser.add_argument(
        "file",
        nargs="?",
        default=STANDARD_INPUT,
        metavar="FILE",
        help="refusals separated by `---` lines, or JSON lines with `text`, `code` and `locale`;"
        " `-` is standard input",
    )
    parser.add_argument("--code", help="the reason code of the refusals")
    parser.add_argument("--locale", help="the language; default: guessed")
    parser.add_argument("--marks", metavar="FILE", help="also use the marks in this file")
    parser.add_argument("--json", action="store_true", help="one JSON object per refusal")


def run_lint_refusal(args: argparse.Namespace) -> int:
    """Print the problems of each refusal; the status says whether there are any."""
    marks = None if args.marks is None else load_marks(args.marks)
    reports = []
    for index, one in enumerate(_read_refusals(args.file)):
        code, locale = one.code or args.code, one.locale or args.locale
        report = lint_refusal(one.text, code, locale, marks=marks)
        reports.append(report)
        if args.json:
            print(json.dumps({"where": one.where, **_report_to_json(report, one.text)}))
            continue
        if index:
            print()
        print_refusal_report(report, one.text, one.where)
    if any(report.problems for report in reports):
        return PROBLEMS_FOUND
    return UNJUDGED if any(report.verdict in _UNJUDGED_VERDICTS for report in reports) else 0


def _report_to_json(report: RefusalReport, text: str) -> dict[str, Any]:
    """Return the report as JSON; parts and problems with a span also quote it."""
    row: dict[str, Any] = msgspec.to_builtins(report)
    for placed in (*row["parts"], *row["problems"]):
        if "span" in placed:
            placed["quote"] = text[placed["span"]["start"] : placed["span"]["end"]]
    return row


def _read_refusals(name: str) -> list[RefusalText]:
    """Return the refusals in a file.

    Raises:
        InputError: The file cannot be read, or is empty.
    """
    shown = "standard input" if name == STANDARD_INPUT else name
    try:
        raw = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot read the refusals: {reason}", where=name) from error
    text = raw.decode("utf-8-sig", "replace")
    found = list(_parse_rows(text, shown) or _split_texts(text, shown))
    if not found:
        raise InputError("the input holds no refusal", where=shown)
    return found


def _parse_rows(text: str, shown: str) -> list[RefusalText] | None:
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
        rows.append(
            RefusalText(
                f"{shown}:{number}",
                row["text"],
                _optional_text(row, "code"),
                _optional_text(row, "locale"),
            )
        )
    return rows


def _optional_text(row: dict[str, Any], key: str) -> str | None:
    value = row.get(key)
    return value if isinstance(value, str) and value else None


def _split_texts(text: str, shown: str) -> Iterator[RefusalText]:
    """Yield the texts between `---` lines, each with the number of its first line."""
    start, lines = 1, text.split("\n")
    for number, line in enumerate([*lines, _SEPARATOR], 1):
        if line.strip() != _SEPARATOR:
            continue
        inside = lines[start - 1 : number - 1]
        blank = next((at for at, words in enumerate(inside) if words.strip()), None)
        if blank is not None:
            yield RefusalText(f"{shown}:{start + blank}", "\n".join(inside).strip())
        start = number + 1

"""`demur detect`: count the refusals among recorded answers by kind, language and code."""

import argparse
import json
import re
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from demur.cli.main import Arguments, UsageError
from demur.cli.options import STANDARD_INPUT, hint_terminal
from demur.cli.terminal import Paint, format_table
from demur.detect.detector import RefusalDetection, RefusalKind, detect_refusal
from demur.errors import InputError, one_line

__all__ = ["configure_detect", "run_detect"]

LIMIT_EXCEEDED = 3
_LIMIT_PATTERN = re.compile(r"(full|partial|unable|refused)\s*>\s*([0-9]+(?:\.[0-9]+)?)\s*%")
_MAX_SHOWN_BAD = 20


class JudgedAnswer(NamedTuple):
    """A line of the input: its place, and its detection or its problem."""

    where: str
    detection: RefusalDetection | None
    problem: str = ""


def configure_detect(add: Arguments) -> None:
    """Add the command's arguments."""
    add(
        "files [FILE...]",
        "answers, one JSON object per line; `-` is standard input",
        default=[STANDARD_INPUT],
    )
    add(
        "--response-field NAME",
        "the field of the answer; nested like `choices.0.message.content`",
        default="response",
    )
    add("--prompt-field NAME", "the field of the prompt, if any", default="prompt")
    add("--each", "one JSON object per answer, no counts")
    add("--json", "the counts as one JSON object")
    add(
        "--fail-over LIMIT",
        f"exit with {LIMIT_EXCEEDED} above a limit like `full>10%%`, `partial>5%%`, `refused>10%%`"
        " or `unable>5%%`",
        type=_parse_limit,
    )


def run_detect(args: Namespace) -> int:
    """Print each answer's detection, or the counts."""
    counts = _AnswerCounts()
    for name in args.files:
        for judged in _judge_file(name, args.response_field, args.prompt_field):
            counts.add(judged)
            if args.each and judged.detection is not None:
                row = {"where": judged.where, **msgspec.to_builtins(judged.detection)}
                print(json.dumps(row, ensure_ascii=False))
    if args.json:
        print(json.dumps(counts.as_json(), indent=2, ensure_ascii=False))
    elif not args.each:
        counts.print_table()
    counts.print_problems()
    if args.fail_over is None:
        return 0
    if not counts.answers:
        raise UsageError("there is no answer to check", where=", ".join(args.files))
    return LIMIT_EXCEEDED if counts.exceeds(*args.fail_over) else 0


class _AnswerCounts:
    """Counts of the answers so far; answers themselves are not kept."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter({str(kind): 0 for kind in RefusalKind})
        self.languages: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.bases: Counter[str] = Counter()
        self.truncated = 0
        self.bad: list[JudgedAnswer] = []
        self.bad_count = 0

    @property
    def answers(self) -> int:
        """The number of lines with an answer."""
        return self.kinds.total()

    def add(self, judged: JudgedAnswer) -> None:
        """Count one line."""
        detection = judged.detection
        if detection is None:
            self.bad_count += 1
            if len(self.bad) < _MAX_SHOWN_BAD:
                self.bad.append(judged)
            return
        self.kinds[str(detection.kind)] += 1
        self.bases[str(detection.basis)] += 1
        self.languages[detection.language or "unknown"] += 1
        self.truncated += detection.truncated
        if detection.code is not None:
            self.codes[detection.code] += 1

    def exceeds(self, kind: str, percent: float) -> bool:
        """Return whether more than `percent` of the answers are of this kind."""
        refused = self.kinds["full"] + self.kinds["partial"]
        return (refused if kind == "refused" else self.kinds[kind]) * 100 > percent * self.answers

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "answers": self.answers,
            "kinds": dict(self.kinds),
            "languages": dict(self.languages.most_common()),
            "codes": dict(self.codes.most_common()),
            "bases": dict(self.bases.most_common()),
            "truncated": self.truncated,
            "bad_lines": self.bad_count,
        }

    def print_table(self) -> None:
        """Print the counts as a table, each with its share."""
        rows = [
            (what, name, str(number), f"{100 * number / max(1, self.answers):.1f} %")
            for what, counter in (
                ("kind", self.kinds),
                ("code", self.codes),
                ("language", self.languages),
            )
            for name, number in counter.most_common()
        ]
        print(format_table(rows, ("what", "value", "answers", "share"), Paint()))
        notes = [f"{self.answers} answers"]
        notes += [f"{self.truncated} read at head and tail only"] if self.truncated else []
        notes += [f"{self.bases['empty']} empty"] if self.bases["empty"] else []
        notes += [f"{self.bad_count} lines could not be read"] if self.bad_count else []
        print(", ".join(notes))

    def print_problems(self) -> None:
        """Print the lines that could not be read to standard error."""
        for judged in self.bad:
            print(f"{one_line(judged.where)}: {one_line(judged.problem)}", file=sys.stderr)
        if self.bad_count > len(self.bad):
            print(f"and {self.bad_count - len(self.bad)} more lines", file=sys.stderr)


def _parse_limit(text: str) -> tuple[str, float]:
    found = _LIMIT_PATTERN.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"`{text}` is not a limit; write it like `full>10%`")
    return found[1], float(found[2])


def _judge_file(name: str, response: str, prompt: str) -> Iterator[JudgedAnswer]:
    source = "standard input" if name == STANDARD_INPUT else name
    for number, raw in enumerate(_read_lines(name), 1):
        if raw.strip():
            yield _judge_line(f"{source}:{number}", raw, response, prompt)


def _read_lines(name: str) -> Iterator[bytes]:
    if name == STANDARD_INPUT:
        hint_terminal("answers, one JSON object per line,")
        yield from sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as stream:
            yield from stream
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot read the answers: {reason}", where=name) from error


def _judge_line(where: str, raw: bytes, response: str, prompt: str) -> JudgedAnswer:
    try:
        row = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return JudgedAnswer(where, None, f"not UTF-8, from byte {error.start} on")
    except (ValueError, RecursionError):
        return JudgedAnswer(where, None, "not JSON")
    answer = _lookup_field(row, response)
    if not isinstance(answer, str):
        problem = "is missing" if answer is None else f"is `{type(answer).__name__}`, not text"
        return JudgedAnswer(where, None, f"the field `{response}` {problem}")
    question = _lookup_field(row, prompt)
    return JudgedAnswer(
        where, detect_refusal(answer, question if isinstance(question, str) else None)
    )


def _lookup_field(row: Any, name: str) -> Any:
    """Return the value at a dotted name, or None. A key may itself contain dots."""
    if isinstance(row, dict) and name in row:
        return row[name]
    first, dot, rest = name.partition(".")
    if isinstance(row, list) and first.isdecimal() and int(first) < len(row):
        inner = row[int(first)]
    elif isinstance(row, dict) and dot:
        inner = row.get(first)
    else:
        return None
    return _lookup_field(inner, rest) if dot else inner

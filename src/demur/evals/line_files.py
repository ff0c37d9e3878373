"""Files that evals write and read: replaced atomically, and parsed with every problem at once."""

import os
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from demur.errors import DemurError, InputError, ManyProblemsError, Problem, error_reason

MAX_PROBLEMS = 20

Parsed = TypeVar("Parsed")


@contextmanager
def replace_file(path: Path, what: str, error: type[DemurError]) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` once the body has succeeded.

    Raises:
        DemurError: It cannot be written; of the type `error`.
    """
    fresh = path.with_name(f"{path.name}.new")
    try:
        with fresh.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except (OSError, ValueError) as failure:
        if isinstance(failure, DemurError):
            raise
        raise error(f"cannot write {what}: {error_reason(failure)}", where=str(path)) from failure


def write_json(path: Path, value: object, what: str, error: type[DemurError]) -> None:
    """Replace a file by a value as indented JSON.

    Raises:
        DemurError: It cannot be written; of the type `error`.
    """
    with replace_file(path, what, error) as file:
        file.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def parse_lines(
    path: Path | str,
    what: str,
    parse: Callable[[dict[str, Any]], Parsed],
    error: type[ManyProblemsError],
    *,
    example: str,
) -> list[Parsed]:
    """Return the parsed objects of a file of JSON lines; blank lines are skipped.

    `parse` raises `InputError` for an object that cannot be used. `example` is a good line.

    Raises:
        ManyProblemsError: The file or some of its lines cannot be used; of the type `error`.
    """
    found: list[Parsed] = []
    problems: list[Problem] = []
    try:
        with Path(path).open("rb") as file:
            for number, raw in enumerate(file, 1):
                line = raw.removeprefix(BOM_UTF8) if number == 1 else raw
                if line.strip():
                    try:
                        found.append(parse(_decode_object(line, example)))
                    except InputError as bad:
                        problems.append(Problem(f"{path}:{number}", bad.problem, bad.help))
    except (OSError, ValueError) as failure:
        problem = Problem(str(path), f"cannot read {what}: {error_reason(failure)}")
        raise error.from_problems([problem]) from failure
    raise_problems(problems, error)
    return found


def raise_problems(
    problems: list[Problem], error: type[ManyProblemsError], limit: int = MAX_PROBLEMS
) -> None:
    """Raise an error with the first problems, if there are any."""
    more = len(problems) - limit
    if more > 0:
        problems[limit:] = [Problem(None, f"and {more} more problems")]
    if problems:
        raise error.from_problems(problems)


def _decode_object(line: bytes, example: str) -> dict[str, Any]:
    help_text = f"write lines like {example}"
    if b"\0" in line:
        problem = "not UTF-8: it holds NUL bytes, like UTF-16"
        raise InputError(problem, help="save the file as UTF-8")
    try:
        value = msgspec.json.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        problem = f"not UTF-8: {error.reason}"
        raise InputError(problem, help="save the file as UTF-8") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        raise InputError(f"not JSON: {reason[:1].lower()}{reason[1:]}", help=help_text) from error
    if not isinstance(value, dict):
        raise InputError("the line is not a JSON object", help=help_text)
    return value

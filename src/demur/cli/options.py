"""Arguments that several commands share: registries, times, periods, files to read and write."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from demur.errors import DemurError, InputError


def add_argument(
    parser: "argparse._ActionsContainer", spec: str, help_text: str, **more: Any
) -> None:
    """Add an argument that `spec` describes as a synopsis does: its name, then its value.

    `--json` is a flag, `--out FILE` takes a value, and `--pin FILE ...` is repeatable. `file
    [FILE]` is positional and optional, `paths PATH...` takes one or more, `ids [ID...]` any number.
    """
    name, _, value = spec.partition(" ")
    if not name.startswith("-"):
        optional, many = value.startswith("["), "..." in value
        value = value.strip("[]").removesuffix("...")
        if optional or many:
            more["nargs"] = "?" if not many else "*" if optional else "+"
    elif value.endswith(" ..."):
        more = {"action": "append", "default": [], **more}
        value = value.removesuffix(" ...")
    elif not value and not more:
        more["action"] = "store_true"
    if value:
        more["metavar"] = value
    parser.add_argument(name, help=help_text, **more)


def argument_adder(parser: "argparse._ActionsContainer") -> Callable[..., None]:
    """Return `add_argument` for one parser."""
    return partial(add_argument, parser)


def add_registry_option(parser: argparse.ArgumentParser) -> None:
    """Add `--registry FILE`, which `default_registry` reads."""
    text = "also load the codes of this organisation's registry; repeatable"
    add_argument(parser, "--registry FILE ...", text)


_SECONDS_PER_UNIT = {"m": 60, "h": 3600, "d": 86400}
_MAX_PERIOD = 10_000


def parse_period(text: str) -> timedelta:
    """Parse a period like `30m`, `8h` or `7d`.

    Raises:
        InputError: The text is not a period.
    """
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdecimal()) or unit not in _SECONDS_PER_UNIT:
        raise InputError(f"`{text}` is not a period", help="like 30m, 8h or 7d")
    if not 0 < int(number) <= _MAX_PERIOD:
        raise InputError(
            f"`{text}` is not a period", help=f"from 1 to {_MAX_PERIOD} minutes, hours or days"
        )
    return timedelta(seconds=int(number) * _SECONDS_PER_UNIT[unit])


def parse_time(text: str, now: datetime) -> datetime:
    """Parse a date, a time (UTC unless it names a zone), or a period before `now`.

    Raises:
        InputError: The text is not a time.
    """
    if text[-1:] in _SECONDS_PER_UNIT and text[:-1].isdecimal():
        return now - parse_period(text)
    try:
        named = datetime.fromisoformat(text)
        return named.replace(tzinfo=UTC) if named.tzinfo is None else named.astimezone(UTC)
    except (ValueError, OverflowError):
        help_text = "like 2027-01-31, 2027-01-31T12:00Z, or 7d for seven days ago"
        raise InputError(f"`{text}` is not a time", help=help_text) from None


def write_file(path: Path, text: str) -> None:
    """Write a file, replacing an existing one.

    Raises:
        InputError: The file cannot be written.
    """
    _write_text(path, text, "w")


def write_new_file(path: Path, text: str, *, help_text: str) -> None:
    """Write a file that must not exist yet.

    Raises:
        InputError: The file exists, or cannot be written.
    """
    try:
        _write_text(path, text, "x")
    except FileExistsError as error:
        raise InputError("the file already exists", where=str(path), help=help_text) from error


def _write_text(path: Path, text: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise
    # A path that holds a NUL is a ValueError, not an OSError.
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot write: {reason}", where=str(path)) from error


STANDARD_INPUT = "-"
# Fields that a request must not contain, and the option that takes each of them.
_OPTION_HELP = {
    "accepted": "pass accepted constraints with --accept TEXT",
    "findings": "pass findings of guards with --finding CODE",
    "grants": "pass grants with --grant FILE",
}


class RequestItem(NamedTuple):
    """An unchecked request, and its place in the file."""

    where: str
    value: Any


class RequestBatch(NamedTuple):
    """The requests in a file. `listed`: it is a JSON list or lines, even with one request."""

    listed: bool
    requests: tuple[RequestItem, ...]


def read_requests(name: str) -> RequestBatch:
    """Return the requests in the file `name`; `-` is standard input.

    Raises:
        InputError: The file cannot be read, or is not JSON.
    """
    shown, raw = _read_bytes(name)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8, from byte {error.start} on", where=shown) from error
    if not text.strip():
        raise InputError("there is no request in it", where=shown, help='like {"action": ...}')
    try:
        value = _parse_json(text, shown)
    except json.JSONDecodeError as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) < 2 or not _is_json(lines[0][1]):
            raise _not_json_error(error, shown) from error
        return RequestBatch(listed=True, requests=tuple(_parse_lines(lines, shown)))
    if isinstance(value, list):
        found = (RequestItem(f"{shown}[{index}]", item) for index, item in enumerate(value))
        return RequestBatch(listed=True, requests=tuple(found))
    return RequestBatch(listed=False, requests=(RequestItem(shown, value),))


@contextmanager
def prefix_errors(where: str) -> Iterator[None]:
    """Prefix errors with the place of the request that caused them."""
    try:
        yield
    except DemurError as error:
        if not isinstance(error, ValueError | TypeError):
            raise
        inner = f"{where}: {error.where}" if error.where else where
        help_text = _OPTION_HELP.get(error.where or "", error.help)
        raise InputError(error.problem, where=inner, help=help_text) from error


def _read_bytes(name: str) -> tuple[str, bytes]:
    if name == STANDARD_INPUT:
        if sys.stdin.isatty():
            print("reading a request from the keyboard; end with Ctrl-D", file=sys.stderr)
        return "standard input", sys.stdin.buffer.read()
    try:
        return name, Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot read the request: {reason}", where=name) from error


def _parse_lines(lines: list[tuple[int, str]], shown: str) -> Iterator[RequestItem]:
    for number, line in lines:
        where = f"{shown}:{number}"
        try:
            yield RequestItem(where, _parse_json(line, where))
        except json.JSONDecodeError as error:
            raise InputError(
                f"not JSON: {_lower_first(error)}", where=f"{where}:{error.colno}"
            ) from error


def _not_json_error(error: json.JSONDecodeError, shown: str) -> InputError:
    return InputError(
        f"not JSON: {_lower_first(error)}", where=f"{shown}:{error.lineno}:{error.colno}"
    )


def _lower_first(error: json.JSONDecodeError) -> str:
    return error.msg[:1].lower() + error.msg[1:]


def _parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_reject_duplicates)
    except RecursionError as error:
        raise InputError("not readable JSON: nested too deeply", where=where) from error
    except _DuplicateKeyError as error:
        raise InputError(f"duplicate key `{error}` in one object", where=where) from error


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


class _DuplicateKeyError(Exception):
    """A duplicate key: JSON parsers disagree on which value counts."""


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKeyError(key)
        found[key] = value
    return found

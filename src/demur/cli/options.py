"""Arguments that several commands share: registries, times, periods, files to read and write."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from demur.cli.main import Arguments, UsageError
from demur.codes.registry import Registry
from demur.errors import DemurError, InputError, error_reason
from demur.source.item import did_you_mean


def add_registry_option(add: Arguments) -> None:
    """Add `--registry FILE`, which `default_registry` reads."""
    text = "also load the codes of this organisation's registry; repeatable"
    add("--registry FILE ...", text)


def require_code(text: str, registry: Registry) -> str:
    """Return the registered code that was named, in any case.

    Raises:
        UsageError: No registry has it.
    """
    code = match_code(text, registry)
    if code is None:
        meant = did_you_mean(text, (entry.code for entry in registry))
        raise UsageError(
            f"unknown code `{text[:80]}`", help=meant or "`demur codes list` lists them"
        )
    return code


def match_code(text: str, registry: Registry) -> str | None:
    """Return the registered code that equals `text` but for its case, or None."""
    domain, slash, name = text.rpartition("/")
    folded = f"{domain.lower()}{slash}{name.upper().replace('-', '_')}"
    return next((code for code in (text, folded) if code in registry), None)


@contextmanager
def usage_errors(beginning: str = "") -> Iterator[None]:
    """Turn errors about values of the command line into usage errors.

    `beginning` chooses among them by their text: an unknown name is a usage error, while a file
    that it names and that cannot be read is not.
    """
    try:
        yield
    except DemurError as error:
        if not error.problem.startswith(beginning):
            raise
        raise UsageError(error.problem, where=error.where, help=error.help) from error


_SECONDS_PER_UNIT = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_MAX_PERIOD = 10_000
_DAYS = {"today": 0, "yesterday": 1}


def parse_period(text: str) -> timedelta:
    """Parse a period like `30m`, `8h`, `7d` or `2w`.

    Raises:
        UsageError: The text is not a period.
    """
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdecimal()) or unit not in _SECONDS_PER_UNIT:
        raise UsageError(f"`{text}` is not a period", help="like 30m, 8h, 7d or 2w")
    if not 0 < int(number) <= _MAX_PERIOD:
        help_text = f"from 1 to {_MAX_PERIOD} minutes, hours, days or weeks"
        raise UsageError(f"`{text}` is not a period", help=help_text)
    return timedelta(seconds=int(number) * _SECONDS_PER_UNIT[unit])


def parse_time(text: str, now: datetime) -> datetime:
    """Parse a date, a time (UTC unless it names a zone), `today`, or a period before `now`.

    `today` and `yesterday` begin at midnight UTC.

    Raises:
        UsageError: The text is not a time.
    """
    days_back = _DAYS.get(text.casefold())
    if days_back is not None:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight - timedelta(days=days_back)
    if text[-1:] in _SECONDS_PER_UNIT and text[:-1].isdecimal():
        return now - parse_period(text)
    try:
        named = datetime.fromisoformat(text)
        return named.replace(tzinfo=UTC) if named.tzinfo is None else named.astimezone(UTC)
    except (ValueError, OverflowError):
        help_text = "like yesterday, 2h, 7d, 2027-01-31 or 2027-01-31T12:00Z"
        raise UsageError(f"`{text}` is not a time", help=help_text) from None


def parse_pairs(pairs: Iterable[str], where: str, example: str) -> dict[str, str]:
    """Return the values of options like `NAME=VALUE` by name, with `_` for `-`.

    Raises:
        InputError: One is not of this form.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"`{pair}` is not NAME=VALUE", where=where, help=f"like `{example}`")
        values[name.replace("-", "_")] = value
    return values


def write_file(path: Path, text: str, *, new: str | None = None) -> None:
    """Write a file, replacing an existing one; `new` is the help if it must not exist yet.

    Raises:
        InputError: The file cannot be written, or exists.
    """
    try:
        with path.open("w" if new is None else "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as error:
        raise InputError("the file already exists", where=str(path), help=new) from error
    # A path that holds a NUL is a ValueError, not an OSError.
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write: {error_reason(error)}", where=str(path)) from error


def make_folder(path: Path) -> None:
    """Create a folder and its parents, unless it exists.

    Raises:
        InputError: The folder cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        problem = f"cannot create the folder: {error_reason(error)}"
        raise InputError(problem, where=str(path)) from error


STANDARD_INPUT = "-"


def hint_terminal(what: str) -> None:
    """Say on standard error that the command waits for the keyboard, if it does."""
    if sys.stdin.isatty():
        print(f"reading {what} from the keyboard; end with Ctrl-D", file=sys.stderr)


def read_input(name: str, what: str, max_bytes: int = -1) -> tuple[str, bytes]:
    """Return the content of a file with its name; `-` is standard input.

    Raises:
        InputError: It cannot be read.
    """
    try:
        if name != STANDARD_INPUT:
            with Path(name).open("rb") as file:
                return name, file.read(max_bytes)
        hint_terminal(what)
        return "standard input", sys.stdin.buffer.read(max_bytes)
    except (OSError, ValueError) as error:
        # People type the text itself where its file is asked for.
        help_text = "name a file, or `-` for standard input"
        problem = f"cannot read {what}: {error_reason(error)}"
        raise InputError(problem, where=name, help=help_text) from error


def parse_json(text: str, where: str, line: int | None = None, *, unique_keys: bool = False) -> Any:
    """Return the JSON value in a text; `line` is its number if it is one line of a file.

    Raises:
        InputError: It is not JSON, is nested too deeply, or a key is not unique.
    """
    place = where if line is None else f"{where}:{line}"
    try:
        return json.loads(text, object_pairs_hook=_reject_duplicates if unique_keys else None)
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        place = f"{where}:{line or error.lineno}:{error.colno}"
        raise InputError(problem, where=place) from error
    except RecursionError as error:
        raise InputError("not readable JSON: nested too deeply", where=place) from error
    except InputError as error:
        raise InputError(error.problem, where=place) from error


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; JSON parsers disagree on which value of a duplicate key counts."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputError(f"duplicate key `{key}` in one object")
        found[key] = value
    return found


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


_REQUEST_HELP = 'like {"action": ...}'


def read_requests(name: str, what: str = "request", help_text: str = _REQUEST_HELP) -> RequestBatch:
    """Return the requests in the file `name`; `-` is standard input.

    `what` names them in errors, if they are something else, and `help_text` says what to give.

    Raises:
        InputError: The file cannot be read, is not JSON, or holds no request.
    """
    where, raw = read_input(name, f"the {what}")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8, from byte {error.start} on", where=where) from error
    if not text.strip():
        raise UsageError(f"there is no {what} in it", where=where, help=help_text)
    try:
        value = parse_json(text, where, unique_keys=True)
    except InputError as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        several = isinstance(error.__cause__, json.JSONDecodeError) and len(lines) > 1
        if not several or not _is_json(lines[0][1]):
            raise
        found = [
            RequestItem(f"{where}:{row}", parse_json(line, where, row, unique_keys=True))
            for row, line in lines
        ]
        return RequestBatch(listed=True, requests=tuple(found))
    if isinstance(value, list):
        if not value:
            raise UsageError(f"there is no {what} in the list", where=where, help=help_text)
        found = [RequestItem(f"{where}[{index}]", item) for index, item in enumerate(value)]
        return RequestBatch(listed=True, requests=tuple(found))
    return RequestBatch(listed=False, requests=(RequestItem(where, value),))


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


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

"""Read events for guards from files: plain text, or an event as JSON."""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from demur.cli.request_files import STANDARD_INPUT
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import DemurError, InputError
from demur.guards.events import read_config, parse_event
from demur.guards.text_rules.rules import load_rules
from demur.source import SourceError, read_source

__all__ = ["MAX_EVENT_BYTES", "EventFile", "read_guard_config", "read_event_file"]

MAX_EVENT_BYTES = 100_000_000
# The names of the setting for text rules, which differ between guards.
_RULE_FIELDS = ("rules", "text_rules")


class EventFile(NamedTuple):
    """An event, and the name of its source."""

    where: str
    event: Any
    replaced: bool


def read_event_file(surface: Surface, name: str, *, as_json: bool) -> EventFile:
    """Return the event in the file `name`; `-` is standard input.

    Raises:
        InputError: It cannot be read, is too large, or is not an event of the surface.
    """
    where, raw = _read_bytes(name)
    text = raw.decode("utf-8", "replace")
    replaced = "\N{REPLACEMENT CHARACTER}" in text and not _is_utf8(raw)
    value = _parse_json(text, where) if as_json else text
    try:
        return EventFile(where, parse_event(surface, value), replaced)
    except DemurError as error:
        place = f"{where}: {error.where}" if error.where else where
        raise InputError(error.problem, where=place, help=error.help) from error


def read_guard_config(
    surface: Surface, path: str | None, rules: str | None, registry: Registry
) -> Any:
    """Return the guard settings in a YAML or JSON file, with the text rules of another file.

    Raises:
        InputError: The settings are invalid.
        RuleError: The rules are invalid.
    """
    fields: dict[str, Any] = {} if path is None else _read_mapping(path)
    try:
        config = read_config(surface, fields)
    except DemurError as error:
        place = f"{path}: {error.where}" if error.where else path
        raise InputError(error.problem, where=place, help=error.help) from error
    if rules is None:
        return config
    known = [field for field in _RULE_FIELDS if field in config.__struct_fields__]
    if not known:
        raise InputError(f"the guard of `{surface}` does not use text rules", where="--rules")
    own = load_rules(rules, registry=registry)
    if own.surface is not surface:
        problem = f"these are rules for `{own.surface}`, not for `{surface}`"
        raise InputError(problem, where=rules)
    return msgspec.structs.replace(config, **{known[0]: own})


def _read_bytes(name: str) -> tuple[str, bytes]:
    try:
        if name == STANDARD_INPUT:
            where = "standard input"
            if sys.stdin.isatty():
                print("reading from the keyboard; end with Ctrl-D", file=sys.stderr)
            raw = sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
        else:
            where = name
            with Path(name).open("rb") as file:
                raw = file.read(MAX_EVENT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot read: {reason}", where=name) from error
    if len(raw) > MAX_EVENT_BYTES:
        raise InputError(
            f"more than {MAX_EVENT_BYTES} bytes", where=where, help="split it into parts"
        )
    return where, raw


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}:{error.colno}"
        said = error.msg[:1].lower() + error.msg[1:]
        raise InputError(f"not JSON: {said}", where=place) from error
    except RecursionError as error:
        raise InputError("not readable JSON: nested too deeply", where=where) from error


def _read_mapping(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
        value = read_source(path, text).plain_value
    except SourceError as error:
        first = error.problems[0]
        raise InputError(first.problem, where=first.where, help=first.help) from error
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or "not UTF-8 text").lower()
        raise InputError(f"cannot read the settings: {reason}", where=path) from error
    if not isinstance(value, dict):
        raise InputError("settings must be a mapping", where=path, help="like `longest: 1000`")
    return value

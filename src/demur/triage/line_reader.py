"""Read one line: its refusals, its time, and, in JSON logs, who said them.

Plain lines are read exactly as `find_refusals` does. In JSON lines only demur's own envelope or
record counts, and the message. Other fields are somebody's prompt or answer, and so is the
message if the event says that a user wrote it. Of the message only the first line counts, up to
a word that announces quoted text (`prompt: …`). Quoted refusals are counted separately.
"""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, cast

from demur.codes.entry import is_code
from demur.codes.refusal_line import FoundRefusal, find_refusals
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface, Verdict
from demur.triage.counts import CANONICAL, LEGACY, QUOTED, UNKNOWN, UNMAPPED, TriageOptions
from demur.triage.suggest import find_unmapped


class _CodeName(NamedTuple):
    """Stands in for a registry entry; the finder reads only its code."""

    code: str


class LineReader:
    """Finds refusals, of unknown codes too; the finder uses it in place of a registry."""

    def __init__(self, registry: Registry) -> None:
        self.known = frozenset(str(entry.code) for entry in registry)
        self.code_of_phrase = registry.code_of_phrase
        self._allowing = {entry.code for entry in registry if entry.refusal_class is None}

    @staticmethod
    def get(code: str) -> _CodeName:
        """Return an entry for any code; unknown codes are recognised later."""
        return _CodeName(code)

    def find(self, text: str) -> list[FoundRefusal]:
        """Return the refusals in a text, at most one per line."""
        # The finder needs only `get` and `code_of_phrase`; so there is one grammar of lines.
        return find_refusals(text, registry=cast("Registry", self))

    def found_kind(self, found: FoundRefusal) -> str:
        """Return whether a refusal is canonical, legacy, or of an unknown code."""
        if found.legacy:
            return LEGACY
        return CANONICAL if found.code in self.known else UNKNOWN

    def code_kind(self, code: str) -> str | None:
        """Return the kind of a code, or None if it is not well-formed."""
        if code in self.known:
            return CANONICAL
        return UNKNOWN if is_code(code) else None

    def is_refusing(self, code: str) -> bool:
        """Return whether a code refuses; unknown codes count as refusing."""
        return code not in self._allowing


# The time of a line is at its head; a later one may be quoted.
MAX_HEAD_LENGTH = 200

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}
_MONTH = f"(?P<month>{'|'.join(_MONTH_NAMES)})"
_YEAR = r"(?<!\d)(?P<year>\d{4})"
_DAY = r"(?P<day>\d\d?)"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d{1,9})?)?"
_COMPACT = r"(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)(?:[.,]\d{1,9})?"
_ZONE = r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d(?!\d))|(?P<hours>[+-]\d\d)(?!\d))?"
_TIME_FORMS = (
    # ISO 8601 and its kin: RFC 5424, log4j, Python, Go, nginx.
    rf"{_YEAR}(?P<sep>[-/.])(?P<month>\d\d)(?P=sep)(?P<day>\d\d)[T _]{_CLOCK}{_ZONE}",
    rf"{_YEAR}(?P<month>\d\d)(?P<day>\d\d)T{_COMPACT}{_ZONE}",
    # Apache and nginx access logs.
    rf"(?P<day>\d\d)/{_MONTH}/(?P<year>\d{{4}}):{_CLOCK}{_ZONE}",
    # Mail, and log4j's DATE.
    rf"(?<!\d){_DAY}[ -]{_MONTH}[ -]{_YEAR},? {_CLOCK}{_ZONE}",
    # RFC 3164, and ctime with the year at its end.
    rf"(?<![A-Za-z]){_MONTH} {{1,2}}{_DAY} {_CLOCK}(?: (?P<zone>UTC|GMT))?(?: {_YEAR}(?!\d))?",
    # klog.
    rf"^[IWEFD](?P<month>\d\d)(?P<day>\d\d) {_CLOCK}",
)
_EPOCH = (
    r"(?:^[\[(\"']?|\b(?:ts|time|timestamp|t)=[\"']?)"
    r"(?P<epoch>\d{9,10}(?:\.\d{1,9})?|\d{13}|\d{16}|\d{19})(?![\d.:/-])"
)
_NUMBER = r"\d{9,19}(?:\.\d{1,9})?\Z"
# Seconds, milliseconds, microseconds and nanoseconds since 1970 differ by their size.
_SCALES = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))
_MAX_AHEAD = timedelta(days=1)


@cache
def _compile_forms() -> tuple[re.Pattern[str], ...]:
    # Compiled late: most logs are counted without times.
    return tuple(map(re.compile, _TIME_FORMS))


def parse_line_time(head: str, now: datetime | None = None) -> datetime | None:
    """Return the first time in the head of a line, in UTC."""
    head = head[:MAX_HEAD_LENGTH]
    forms = _compile_forms()
    first = forms[0].match(head)
    if first is not None and (moment := _calendar_time(first, now)) is not None:
        return moment
    found = [match for form in forms for match in form.finditer(head)]
    for match in sorted(found, key=lambda match: match.start()):
        moment = _calendar_time(match, now)
        if moment is not None:
            return moment
    epoch = re.search(_EPOCH, head)
    return None if epoch is None else _epoch_time(float(epoch["epoch"]))


def parse_value_time(value: object, now: datetime | None = None) -> datetime | None:
    """Return the time in a JSON value, in UTC."""
    if isinstance(value, str):
        if re.match(_NUMBER, value):
            return _epoch_time(float(value))
        return parse_line_time(value, now)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _epoch_time(float(value))


def _epoch_time(number: float) -> datetime | None:
    for limit, scale in _SCALES:
        if 0 < number < limit:
            return _time_or_none(lambda: datetime.fromtimestamp(number / scale, UTC))  # noqa: B023 - called at once
    return None


def _calendar_time(match: re.Match[str], now: datetime | None) -> datetime | None:
    parts = match.groupdict()
    month = _MONTHS.get(parts["month"]) or int(parts["month"])
    clock = (int(parts["hour"]), int(parts["minute"]), int(parts["second"] or 0))
    zone = _parse_zone(parts.get("zone") or parts.get("hours"))
    if parts.get("year"):
        return _make_time(int(parts["year"]), month, int(parts["day"]), clock, zone)
    if now is None:
        return None
    moment = _make_time(now.year, month, int(parts["day"]), clock, zone)
    if moment is None or moment > now + _MAX_AHEAD:
        return _make_time(now.year - 1, month, int(parts["day"]), clock, zone)
    return moment


def _make_time(
    year: int, month: int, day: int, clock: tuple[int, int, int], zone: timezone
) -> datetime | None:
    hour, minute, second = clock
    # A leap second counts as the second before it.
    parts = (year, month, day, hour, minute, min(second, 59))
    return _time_or_none(lambda: datetime(*parts, tzinfo=zone).astimezone(UTC))


def _parse_zone(text: str | None) -> timezone:
    if text is None or text[0] not in "+-":
        return UTC
    hours, minutes = int(text[1:3]), int(text[3:].removeprefix(":") or 0)
    offset = timedelta(hours=hours, minutes=minutes)
    return UTC if offset >= timedelta(days=1) else timezone(-offset if text[0] == "-" else offset)


def _time_or_none(make: Callable[[], datetime]) -> datetime | None:
    try:
        return make()
    except (ValueError, OverflowError, OSError):
        return None


MESSAGE_FIELDS = (
    "message",
    "msg",
    "log",
    "event",
    "MESSAGE",
    "@message",
    "textPayload",
    "jsonPayload.message",
    "fields.message",
)
TIME_FIELDS = (
    "ts",
    "time",
    "timestamp",
    "@timestamp",
    "created_at",
    "asctime",
    "datetime",
    "date",
    "@t",
    "t",
    "eventTime",
    "__REALTIME_TIMESTAMP",
)
_SURFACE_FIELDS = ("surface", "refusal_surface", "refusal.surface")
_SURFACES = frozenset(map(str, Surface))
_OWN_PLACES = ("refusal", "decision", "record")
_EVENT_TYPE = "demur.refusal."
_BREAK = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_SPEECH = "said|says|wrote|asked|sent|message|input|text|prompt|query|content|request"
_PERSONS = "user|human|customer|client|visitor"
_WRITER_NAMES = "role|author|sender|speaker|from"
_FOREIGN_TEXT = (
    rf"(?<![A-Za-z0-9])(?:(?:{_PERSONS})[ _-]?(?:{_SPEECH})"
    r"|prompt(?:[ _-]?text)?|question|query|input(?:[ _-]?text)?|utterance)[\"']?\s*[:=]"
    # Phrases that only introduce speech need no colon.
    rf"|(?<![A-Za-z0-9])(?:{_PERSONS})[ _-](?:said|says|wrote|writes|typed|types)(?![A-Za-z0-9])"
    rf"|\A\s*\*{{0,2}}(?:{_PERSONS})\*{{0,2}}\s*[:>]|\[(?:{_PERSONS})(?:[ _-](?:{_SPEECH}))?\]"
    rf"|<\|?(?:{_PERSONS}|prompt|question|query|untrusted)(?:[ _-][a-z]{{1,20}})?"
    r"(?:\s[^<>]{0,80})?\|?>"
    rf"|[\"'](?:{_WRITER_NAMES})\\*[\"']\s*:\s*\\*[\"'](?:{_PERSONS})\\*[\"']"
    # Match only the first `#` of a row, or a long row would be tried from each.
    rf"|<\|im_start\|>\s*user|\[INST\]|(?<!#)##+\s*(?:{_PERSONS})"
)
_WRITERS = tuple(_WRITER_NAMES.split("|"))
_WRITER_KINDS = ("role", "type", "kind")
_FOREIGN_WRITERS = frozenset({*_PERSONS.split("|"), "end_user", "end-user", "enduser"})
# A container's log line may hold a program's log line, which may hold an event.
_MAX_NESTING = 3


@cache
def _foreign_text() -> re.Pattern[str]:
    # Compiled late: plain logs do not need it.
    return re.compile(_FOREIGN_TEXT, re.IGNORECASE)


class EventRefusal(NamedTuple):
    """One refusal in an event."""

    code: str
    kind: str
    surface: str
    moment: datetime | None


class LogEvent(NamedTuple):
    """One line of a structured log."""

    fields: dict[str, Any]

    @classmethod
    def parse_line(cls, line: bytes) -> "LogEvent | None":
        """Return the event that a line holds, or None if it is no JSON object."""
        value = _decode_json(line)
        return cls(value) if isinstance(value, dict) else None

    def value_at(self, path: str) -> Any:
        """Return the value at a path: a field of that exact name, or a nested one."""
        if path in self.fields:
            return self.fields[path]
        value: Any = self.fields
        for name in path.split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value


def _decode_json(line: bytes) -> Any:
    msgspec = _import_msgspec()
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        # Slower but lenient: accepts invalid UTF-8, lone surrogates and NaN.
        return json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None


@cache
def _import_msgspec() -> Any:
    # Imported late, because it is slow to import and plain logs do not need it.
    return import_module("msgspec")


def read_event_refusals(
    event: LogEvent, reader: LineReader, options: TriageOptions
) -> Iterator[EventRefusal]:
    """Yield the refusals in an event."""
    moment = _event_time(event, options)
    own = list(_own_refusals(event, reader))
    if own:
        for code, surface in own:
            kind = reader.code_kind(code)
            if kind is not None:
                yield EventRefusal(code, kind, surface, moment)
        return
    message = _event_message(event, options)
    if message is None:
        return
    foreign = _is_foreign(event, options)
    for _ in range(_MAX_NESTING):
        text = message.lstrip()
        inner = (
            LogEvent.parse_line(text.encode("utf-8", "surrogatepass")) if text[:1] == "{" else None
        )
        if inner is None:
            break
        message = _event_message(inner, options) or ""
        moment = _event_time(inner, options) or moment
        foreign = foreign or _is_foreign(inner, options)
        event = inner
    surface = _known_surface(*(event.value_at(name) for name in _SURFACE_FIELDS))
    for code, kind in _message_refusals(message, reader):
        yield EventRefusal(code, QUOTED if foreign else kind, surface, moment)


def read_unmapped(event: LogEvent, options: TriageOptions) -> Iterator[EventRefusal]:
    """Yield the wordings in the message of an event that only sound like a refusal."""
    message = _event_message(event, options)
    if message is None or message.lstrip()[:1] == "{" or _is_foreign(event, options):
        return
    # As for refusals, only the first line up to an announcement of quoted text is the guard's.
    announced = _foreign_text().search(message)
    own = message if announced is None else message[: announced.start()]
    for pattern in find_unmapped(_BREAK.split(own.lstrip("\r\n"), maxsplit=1)[0]):
        yield EventRefusal(pattern, UNMAPPED, UNKNOWN, _event_time(event, options))


def _is_foreign(event: LogEvent, options: TriageOptions) -> bool:
    """Return whether an event says that a person wrote its message."""
    if _names_a_person(event.fields):
        return True
    places = map(event.value_at, _container_paths(options.fields or MESSAGE_FIELDS))
    return any(isinstance(place, dict) and _names_a_person(place) for place in places)


@cache
def _container_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths of the objects that contain nested fields."""
    return tuple(dict.fromkeys(path.rpartition(".")[0] for path in paths if "." in path))


def _names_a_person(place: dict[str, Any]) -> bool:
    for name in _WRITERS:
        if (writer := place.get(name)) is not None:
            kinds = map(writer.get, _WRITER_KINDS) if isinstance(writer, dict) else (writer,)
            words = (kind.strip().lower() for kind in kinds if isinstance(kind, str))
            if not _FOREIGN_WRITERS.isdisjoint(words):
                return True
    return False


def read_stray_refusals(text: str, reader: LineReader) -> Iterator[EventRefusal]:
    """Yield the refusals in a line that is not an event, as quoted: its author is unknown."""
    for found in reader.find(text):
        yield EventRefusal(found.code, QUOTED, UNKNOWN, None)


def _own_refusals(event: LogEvent, reader: LineReader) -> Iterator[tuple[str, str]]:
    """Yield code and surface of each refusal that demur itself logged in the event."""
    places = [event.fields, *(event.fields.get(name) for name in _OWN_PLACES)]
    if str(event.fields.get("type", "")).startswith(_EVENT_TYPE):
        places.append(event.fields.get("data"))
    for place in places:
        if not isinstance(place, dict):
            continue
        version = place.get("schema_version")
        if version == "refusal.v1" and place.get("refusal_class") is not None:
            if isinstance(code := place.get("code"), str):
                yield code, _known_surface(place.get("surface"))
        elif version == "decision_record.v1" and place.get("verdict") != Verdict.ALLOW:
            yield from _record_reasons(place, reader)


def _record_reasons(record: dict[str, Any], reader: LineReader) -> Iterator[tuple[str, str]]:
    codes, findings = record.get("reason_codes"), record.get("findings")
    surfaces = {
        finding.get("code"): finding.get("surface")
        for finding in (findings if isinstance(findings, list) else ())
        if isinstance(finding, dict) and isinstance(finding.get("code"), str)
    }
    texts = [code for code in codes if isinstance(code, str)] if isinstance(codes, list) else []
    for code in dict.fromkeys(texts):
        if reader.is_refusing(code):
            yield code, _known_surface(surfaces.get(code))


def _known_surface(*values: object) -> str:
    texts = (value for value in values if isinstance(value, str))
    return next((text for text in texts if text in _SURFACES), UNKNOWN)


def _event_message(event: LogEvent, options: TriageOptions) -> str | None:
    values = (event.value_at(path) for path in options.fields or MESSAGE_FIELDS)
    return next((value for value in values if isinstance(value, str)), None)


def _event_time(event: LogEvent, options: TriageOptions) -> datetime | None:
    if not options.needs_time:
        return None
    moments = (parse_value_time(event.value_at(path), options.now) for path in TIME_FIELDS)
    return next((moment for moment in moments if moment is not None), None)


def _message_refusals(message: str, reader: LineReader) -> Iterator[tuple[str, str]]:
    message = message.lstrip("\r\n")
    broken = _BREAK.search(message)
    first_line = len(message) if broken is None else broken.start()
    refusals = reader.find(message)
    # Ignore announcing words after the last refusal.
    last = max((one.end if one.legacy else one.start for one in refusals), default=0)
    announced = _foreign_text().search(message, 0, last)
    foreign = first_line if announced is None else min(first_line, announced.end())
    for found in refusals:
        own = found.start < foreign
        if own and found.legacy and foreign < found.end:
            own = bool(reader.find(message[:foreign]))
        yield found.code, reader.found_kind(found) if own else QUOTED

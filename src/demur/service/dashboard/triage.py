"""The triage page: count the refusals in an uploaded log, and keep nothing."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec

from demur.codes.registry import Registry
from demur.gate.clock import format_timestamp
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.charts import Chart, stacked_chart
from demur.service.dashboard.frame import parse_uploaded_file, render_on_thread, render_page
from demur.service.dashboard.time_range import TimeBucket
from demur.service.routes.monitoring import scan_sent_log
from demur.triage.counts import CANONICAL, LEGACY, QUOTED, UNKNOWN, RefusalCounts, TriageOptions
from demur.triage.report import counts_csv, counts_json, group_counts

_MAX_CODES = 200
_MAX_ROWS, _MAX_STEM_LENGTH = 10_000, 60


class LogCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code in a log: how often it occurs as a line, as a legacy phrase, and as a quotation.

    `percent` is its share of the total, which has no unknown codes in it.
    """

    code: str
    count: int
    percent: float
    canonical: int
    legacy: int
    quoted: int
    known: bool
    sample: str


class LogDownload(msgspec.Struct, frozen=True, kw_only=True):
    """The counts as the text of a file. It is part of the page: the service keeps nothing."""

    name: str
    label: str
    media_type: str
    text: str


class LogCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The refusals in a log."""

    name: str
    size: int
    total: int
    codes: list[LogCode]
    notes: list[str]
    undated: int
    times: Chart | None
    downloads: list[LogDownload]


def summarize_log(name: str, counts: RefusalCounts, registry: Registry) -> LogCounts:
    """Return the refusals in a log as the page shows them."""
    notes = [f"Read as far as it goes: {one.reason}" for one in counts.unread]
    if unknown := counts.count_kinds(UNKNOWN):
        notes.insert(0, f"Not in this number: {unknown} of codes that no registry knows")
    hours = _count_by_hour(counts, registry)
    shown_name = name or "a log without a name"
    return LogCounts(
        name=shown_name,
        size=counts.size,
        total=counts.count_kinds(),
        codes=_count_codes(counts, registry)[:_MAX_CODES],
        notes=notes,
        undated=counts.count_kinds() - sum(hours.values()),
        times=_draw_times(hours),
        downloads=list(_write_downloads(name, counts, registry)),
    )


_HOUR = timedelta(hours=1)
_MAX_BARS = 96
# A time beyond these is a mistake of the log.
_FIRST_YEAR, _LAST_YEAR = 1970, 2199


def _count_by_hour(counts: RefusalCounts, registry: Registry) -> dict[datetime, int]:
    hours: dict[datetime, int] = {}
    for group in group_counts(counts, ["hour"], registry):
        with suppress(ValueError):
            start = datetime.fromisoformat(f"{group.names[0][:13]}:00:00+00:00")
            if _FIRST_YEAR <= start.year <= _LAST_YEAR:
                hours[start] = hours.get(start, 0) + group.total_count
    return hours


def _draw_times(hours: Mapping[datetime, int]) -> Chart | None:
    """Return the refusals over time, by the hour or in longer steps; None if none has a time."""
    if not hours:
        return None
    first = min(hours)
    count = (max(hours) - first) // _HOUR + 1
    step = -(-count // _MAX_BARS)
    bars = -(-count // step)
    series = [0] * bars
    for start, number in hours.items():
        series[(start - first) // _HOUR // step] += number
    edges = [format_timestamp(first + place * step * _HOUR) for place in range(bars + 1)]
    buckets = [TimeBucket(start=start, end=end) for start, end in pairwise(edges)]
    return stacked_chart(buckets, {"code": series}, height=132)


def _write_downloads(name: str, counts: RefusalCounts, registry: Registry) -> Iterator[LogDownload]:
    """Yield the counts by code as CSV and JSON, as `demur triage` writes them."""
    stem = (name.rpartition("/")[2].partition(".")[0] or "log")[:_MAX_STEM_LENGTH]
    document = counts_json(counts, ["code", "hour"], registry, top=_MAX_ROWS)
    for suffix, media_type, text in (
        ("csv", "text/csv", counts_csv(counts, ["code"], registry)),
        ("json", "application/json", msgspec.json.encode(document).decode()),
    ):
        yield LogDownload(
            name=f"{stem}-refusals.{suffix}",
            label=suffix.upper(),
            media_type=media_type,
            text=text,
        )


def _count_codes(counts: RefusalCounts, registry: Registry) -> list[LogCode]:
    kinds: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key, number in counts.rows.items():
        kinds[key.code][key.kind] += number
    own = {code: sum(by.values()) - by[QUOTED] for code, by in kinds.items()}
    total = counts.count_kinds()
    samples = {code: found[0].text for (code, _), found in counts.samples.items() if found}
    rows = [
        LogCode(
            code=code,
            count=own[code],
            percent=100 * (by[CANONICAL] + by[LEGACY]) / total if total else 0.0,
            canonical=by[CANONICAL],
            legacy=by[LEGACY],
            quoted=by[QUOTED],
            known=code in registry,
            sample=samples.get(code, "")[:300],
        )
        for code, by in kinds.items()
    ]
    return sorted(rows, key=lambda one: (-one.count, one.code))


def triage_page(call: ApiCall) -> ApiAnswer:
    """Return the page with the upload form."""
    return _render_triage(call, None)


async def triage_upload(call: ApiCall) -> ApiAnswer:
    """Count the refusals in a log, and return the page with them."""

    def read() -> tuple[str, bytes]:
        return parse_uploaded_file(call.body, call.headers.get("content-type", ""))

    options = TriageOptions(now=call.service.clock(), samples=1, timed=True)
    counts = summarize_log(*await scan_sent_log(call, read, options), call.service.gate.registry)
    return await render_on_thread(lambda call: _render_triage(call, counts))(call)


def _render_triage(call: ApiCall, counts: LogCounts | None) -> ApiAnswer:
    return render_page(
        call,
        "triage.html",
        title="Triage",
        section="triage",
        counts=counts,
        largest=call.service.settings.largest_log,
        registry=call.service.gate.registry.label,
    )

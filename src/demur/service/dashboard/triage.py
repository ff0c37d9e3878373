"""The triage page: count the refusals in an uploaded log, and keep nothing."""

from collections import defaultdict

import msgspec

from demur.codes.registry import Registry
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.frame import parse_uploaded_file, render_on_thread, render_page
from demur.service.routes.monitoring import scan_sent_log
from demur.triage.counts import CANONICAL, LEGACY, QUOTED, UNKNOWN, RefusalCounts, TriageOptions

_MAX_CODES = 200


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


class LogCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The refusals in a log."""

    name: str
    size: int
    total: int
    codes: list[LogCode]
    notes: list[str]


def summarize_log(name: str, counts: RefusalCounts, registry: Registry) -> LogCounts:
    """Return the refusals in a log as the page shows them."""
    notes = [f"Read as far as it goes: {one.reason}" for one in counts.unread]
    if unknown := counts.count_kinds(UNKNOWN):
        notes.insert(0, f"Not in this number: {unknown} of codes that no registry knows")
    return LogCounts(
        name=name or "a log without a name",
        size=counts.size,
        total=counts.count_kinds(),
        codes=_count_codes(counts, registry)[:_MAX_CODES],
        notes=notes,
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

    options = TriageOptions(now=call.service.clock(), samples=1)
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

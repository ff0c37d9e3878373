"""What was decided, approved, overridden and let go in a period: tables for people and auditors.

A report is built from the store alone, and the same store and period give the same report. It names
requesters nowhere. It names those who approved, judged, erased or retired, because that is what an
auditor asks for.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import islice
from string import Template
from typing import Any, NamedTuple

from demur.audit.anchors import AnchorLine
from demur.codes.markup import escape_cell
from demur.errors import InputError, one_line
from demur.model.decision import Outcome
from demur.model.record import DecisionRecord
from demur.store.backend import RecordFilter
from demur.store.events import (
    APPROVAL_CLOSED,
    APPROVAL_VOTE,
    ERASE,
    RETIRE,
    EventRow,
    erased_decisions,
    erased_others,
    read_event,
)
from demur.store.store import Store
from demur.store.verify import ChainVerification, verify_chain
from demur.version import __version__

SCHEMA_VERSION = "period_report.v1"
MAX_LISTED = 5000
_ERASED = "(erased)"
_MAX_WORD = 30
_LABELS = {"review": ("good", "false_refusal", "missed_harm"), "outcome": ("success", "failure")}

Cell = str | int


class ReportTable(NamedTuple):
    """A table of a report. `note` says what its rows are, and what was left out."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


class PeriodReport(NamedTuple):
    """The tables of a period: from `since` to before `until`, of some tenants.

    `chains_hold` says whether the chains are intact, None if they were not verified.
    """

    tenants: tuple[str, ...]
    since: str
    until: str
    chains_hold: bool | None
    tables: tuple[ReportTable, ...]


class ChainProof(NamedTuple):
    """What a report says about the chains: their verification, and the anchors it used."""

    verification: ChainVerification | None = None
    anchors: Sequence[AnchorLine] = ()


_UNVERIFIED = ChainProof()


def verify_small_chains(store: Store, tenants: Sequence[str], max_links: int) -> ChainProof:
    """Return the verification of the chains of tenants, or none if they have too many links."""
    heads = [head for head in store.list_heads() if head.tenant in tenants]
    links = sum(head.seq - store.backend.get_anchor(head.tenant).seq for head in heads)
    if links > max_links:
        return _UNVERIFIED
    found = [verify_chain(store.backend, name) for name in tenants]
    together = ChainVerification(
        tenants=len(found),
        records=sum(one.records for one in found),
        erased=sum(one.erased for one in found),
        unconfirmed=sum(one.unconfirmed for one in found),
        breaks=tuple(broken for one in found for broken in one.breaks),
        chains=tuple(chain for one in found for chain in one.chains),
    )
    return ChainProof(together)


def build_period_report(
    store: Store,
    tenants: Sequence[str],
    since: str,
    until: str,
    *,
    proof: ChainProof = _UNVERIFIED,
    max_records: int | None = None,
) -> PeriodReport:
    """Return the report on the decisions of some tenants from `since` to before `until`.

    Raises:
        InputError: The period holds more than `max_records` decisions.
    """
    counts = _PeriodCounts()
    for tenant in tenants:
        found = store.find_records(RecordFilter(tenant=tenant, since=since, until=until))
        for record in found:
            counts.add(record)
            if max_records is not None and counts.decisions > max_records:
                problem = f"the period holds more than {max_records} decisions"
                help_text = "choose a shorter period, or use `demur audit report`"
                raise InputError(problem, where="since", help=help_text)
    events = [
        row
        for tenant in tenants
        for row in store.backend.read_events(tenant)
        if since <= row.created_at < until
    ]
    tables = (
        *counts.tables(),
        _label_table(store, tenants, since, until),
        *_event_tables(events),
        *_chain_tables(store, tenants, since, until, proof),
    )
    holds = None if proof.verification is None else proof.verification.holds
    return PeriodReport(tuple(tenants), since, until, holds, tables)


class _Span:
    """How many decisions there were, and the first and last time."""

    def __init__(self) -> None:
        self.count, self.first, self.last = 0, "", ""

    def add(self, created_at: str) -> None:
        self.count += 1
        self.first = min(self.first or created_at, created_at)
        self.last = max(self.last, created_at)

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self.count, self.first, self.last


class _SpanTable(dict[tuple[Cell, ...], _Span]):
    """Spans by the cells that they are about."""

    def add(self, key: tuple[Cell, ...], created_at: str) -> None:
        span = self.get(key)
        if span is None:
            span = self[key] = _Span()
        span.add(created_at)

    def rows(self) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows, most decisions first."""
        for key, span in sorted(self.items(), key=lambda item: (-item[1].count, item[0])):
            yield (*key, *span.cells)


class _PeriodCounts:
    """What the records of a period add up to."""

    def __init__(self) -> None:
        self.decisions = 0
        self._summary: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._codes: Counter[tuple[str, ...]] = Counter()
        self._actions: Counter[str] = Counter()
        self._refused_actions: Counter[str] = Counter()
        self._ignored: Counter[str] = Counter()
        self._approvals, self._policies = _SpanTable(), _SpanTable()
        self._engines, self._models = _SpanTable(), _SpanTable()
        self._overrides: list[tuple[Cell, ...]] = []

    def add(self, record: DecisionRecord) -> None:
        """Add a record."""
        self.decisions += 1
        allows = record.outcome.allows
        self._outcomes[record.outcome] += 1
        self._actions[record.action_type] += 1
        self._refused_actions[record.action_type] += not allows
        self._summary["binding"] += record.enforced
        self._summary["advisory"] += not record.enforced
        self._summary["refused, and advisory: the action could run"] += (
            not allows and not record.enforced
        )
        self._summary["with inputs erased since"] += record.sealed is None
        self._summary["continued from an earlier decision"] += record.continues is not None
        for code in () if allows else record.reason_codes:
            self._codes[code, record.refusal_class or "", record.verdict] += 1
        for grant in record.ignored_grants:
            if grant.grant_id not in record.lifted_by:
                self._ignored[grant.why] += 1
        if record.resolved_codes:
            self._add_override(record)
        self._add_versions(record)

    def _add_versions(self, record: DecisionRecord) -> None:
        policy, determinism, now = record.policy, record.determinism, record.created_at
        place = (policy.policy_id, policy.policy_version, policy.mode, policy.digest)
        self._policies.add(place, now)
        versions = (determinism.engine_version, determinism.registry_version)
        self._engines.add((*versions, determinism.registry_digest), now)
        for name, model in (determinism.models or {}).items():
            self._models.add((name, model.model, model.digest), now)

    def _add_override(self, record: DecisionRecord) -> None:
        """Add a decision in which a grant or an accepted constraint overcame a code."""
        self._summary["overridden by grants or accepted constraints"] += 1
        grants = () if record.personal is None else record.personal.grants
        known = {grant.grant_id: grant for grant in grants}
        codes = " ".join(record.resolved_codes)
        how = []
        for grant_id in record.lifted_by:
            grant = known.get(grant_id)
            kind, holder = (_ERASED,) * 2 if grant is None else (str(grant.kind), grant.granted_by)
            self._approvals.add((holder, kind, codes), record.created_at)
            how.append(f"{kind} {grant_id} by {holder}")
        how += [f"accepted: {constraint}" for constraint in record.accepted]
        place = (record.created_at, record.tenant, record.decision_id, record.action_type)
        if len(self._overrides) < MAX_LISTED:
            self._overrides.append((*place, record.outcome.label, codes, "; ".join(how)))

    def tables(self) -> Iterator[ReportTable]:
        """Yield the tables."""
        summary = [("decisions", self.decisions), *sorted(self._summary.items())]
        yield ReportTable("summary", "Summary", ("what", "count"), tuple(summary))
        outcomes = [(outcome.label, self._outcomes[outcome]) for outcome in Outcome]
        yield ReportTable("outcomes", "Outcomes", ("outcome", "decisions"), tuple(outcomes))
        yield ReportTable(
            "refusals",
            "Refusals by code and class",
            ("code", "class", "verdict", "decisions"),
            _limit_rows((*key, count) for key, count in _most(self._codes)),
            "a decision with several codes counts once for each",
        )
        yield ReportTable(
            "actions",
            "Types of action",
            ("action", "decisions", "not_allowed"),
            _limit_rows(
                (name, count, self._refused_actions[name]) for name, count in _most(self._actions)
            ),
            _left_out(len(self._actions)),
        )
        yield ReportTable(
            "approvals",
            "Approvals that lifted a code, by whom",
            ("granted_by", "kind", "codes", "decisions", "first", "last"),
            _limit_rows(self._approvals.rows()),
        )
        yield ReportTable(
            "ignored_grants",
            "Grants that lifted nothing",
            ("why", "grants"),
            tuple((why.replace("_", " "), count) for why, count in _most(self._ignored)),
        )
        total = self._summary["overridden by grants or accepted constraints"]
        columns = ("time", "tenant", "decision", "action", "outcome", "codes", "how")
        yield ReportTable(
            "overrides",
            "Overrides: codes that a grant or an accepted constraint overcame",
            columns,
            tuple(self._overrides),
            _left_out(total),
        )
        spans = ("decisions", "first", "last")
        yield ReportTable(
            "policies",
            "Policies in force",
            ("policy", "version", "mode", "digest", *spans),
            _limit_rows(self._policies.rows()),
        )
        yield ReportTable(
            "registries",
            "Engines and registries in force",
            ("engine", "registry", "digest", *spans),
            _limit_rows(self._engines.rows()),
        )
        yield ReportTable(
            "models",
            "Models that scored something",
            ("scorer", "model", "digest", *spans),
            _limit_rows(self._models.rows()),
        )


def _most(counter: Counter[Any]) -> list[tuple[Any, int]]:
    """Return what was counted, most first, in an order that does not depend on the records'."""
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))


def _limit_rows(rows: Iterable[tuple[Cell, ...]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(islice(rows, MAX_LISTED))


def _left_out(total: int) -> str:
    return f"the first {MAX_LISTED} of {total}" if total > MAX_LISTED else ""


def _label_table(store: Store, tenants: Iterable[str], since: str, until: str) -> ReportTable:
    counted: Counter[tuple[str, str, str]] = Counter()
    for tenant in tenants:
        for kind, values in _LABELS.items():
            for label in store.find_labels(kind, values, tenant=tenant, since=since):
                if label.created_at < until:
                    counted[label.by or "(nobody named)", kind, label.value] += 1
    rows = _limit_rows((*key, count) for key, count in sorted(counted.items()))
    columns = ("by", "kind", "value", "labels")
    return ReportTable("labels", "Labels that people gave, by whom", columns, rows)


def _event_tables(rows: Sequence[EventRow]) -> Iterator[ReportTable]:
    let_go: list[tuple[Cell, ...]] = []
    others: list[tuple[Cell, ...]] = []
    votes, closed = _SpanTable(), Counter[str]()
    for row in rows:
        if row.kind in {APPROVAL_VOTE, APPROVAL_CLOSED}:
            what = _event_details(row)
            if row.kind == APPROVAL_VOTE:
                votes.add((row.by, str(what.get("vote", "?"))), row.created_at)
            else:
                closed[str(what.get("state", "?"))] += 1
        place: tuple[Cell, ...] = (row.created_at, row.tenant, row.seq, row.kind)
        if row.kind in {ERASE, RETIRE}:
            let_go.append((*place, *_let_go_cells(row), row.by, row.reason))
        else:
            others.append((*place, row.by, row.reason))
    columns: tuple[str, ...] = ("person", "vote", "votes", "first", "last")
    yield ReportTable("votes", "Votes of approvers, by whom", columns, _limit_rows(votes.rows()))
    ended = tuple(_most(closed))
    yield ReportTable("requests", "Requests for approval that ended", ("state", "requests"), ended)
    columns = ("time", "tenant", "place", "kind", "records", "others")
    columns = (*columns, "by", "reason")
    note = _left_out(len(let_go))
    yield ReportTable("let_go", "Erasures and retirements", columns, _limit_rows(let_go), note)
    columns = ("time", "tenant", "place", "kind", "by", "reason")
    note = _left_out(len(others))
    yield ReportTable("events", "Other events of the chains", columns, _limit_rows(others), note)


def _event_details(row: EventRow) -> Mapping[str, Any]:
    try:
        return read_event(row).what
    except InputError:
        return {}


def _let_go_cells(row: EventRow) -> tuple[Cell, Cell]:
    """Return how many records an event let go, and what else."""
    try:
        event = read_event(row)
    except InputError as error:
        return "?", error.problem
    count = event.what.get("records") if row.kind == RETIRE else len(erased_decisions(event))
    others = ", ".join(f"{kind} {number}" for kind, number in erased_others(event).items())
    return count if type(count) is int else "?", others


def _chain_tables(
    store: Store, tenants: Sequence[str], since: str, until: str, proof: ChainProof
) -> Iterator[ReportTable]:
    found = proof.verification
    breaks = {} if found is None else {one.tenant: one for one in found.breaks}
    chains = {} if found is None else {one.tenant: one for one in found.chains}
    rows: list[tuple[Cell, ...]] = []
    for head in store.list_heads():
        if head.tenant not in tenants:
            continue
        chain, broken = chains.get(head.tenant), breaks.get(head.tenant)
        begins = store.backend.get_anchor(head.tenant).seq + 1
        if broken is not None:
            state = f"broken at {broken.seq}: {broken.problem}"
        elif chain is None:
            state = "not verified here: use `demur audit verify`"
        else:
            state = f"verified from {chain.begins} to {chain.ends}"
        rows.append((head.tenant, begins, head.seq, head.hash, state))
    columns: tuple[str, ...] = ("tenant", "begins", "ends", "head", "state")
    note = "the state of the whole chains, not of the period alone"
    yield ReportTable("chains", "State of the chains", columns, tuple(rows), note)
    anchored = _limit_rows(
        (line.anchor.created_at, line.signed_by, len(line.anchor.heads)) for line in proof.anchors
    )
    columns = ("time", "signed_by", "heads")
    yield ReportTable("anchors", "Anchors that were checked", columns, anchored)
    noted = _limit_rows(
        (one.created_at, tenant, one.head.seq, one.head.hash)
        for tenant in tenants
        for one in store.backend.list_checkpoints(tenant)
        if since <= one.created_at < until
    )
    columns = ("time", "tenant", "place", "hash")
    yield ReportTable("checkpoints", "Checkpoints of the chains", columns, noted)


# -- as JSON, CSV and HTML -------------------------------------------------------------------


def report_to_json(report: PeriodReport) -> dict[str, Any]:
    """Return a report as plain JSON: each table is a list of objects."""
    tables = {
        table.name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        for table in report.tables
    }
    notes = {table.name: table.note for table in report.tables if table.note}
    return {
        "schema_version": SCHEMA_VERSION,
        "demur_version": __version__,
        "tenants": list(report.tenants),
        "since": report.since,
        "until": report.until,
        "chains_hold": report.chains_hold,
        "tables": tables,
        "notes": notes,
    }


def report_csv(report: PeriodReport) -> str:
    """Return a report as CSV: for each table its name, its columns, its rows and an empty line.

    A text that a spreadsheet would run begins with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("since", report.since, "until", report.until))
    writer.writerow(("tenants", *map(_csv_cell, report.tenants)))
    for table in report.tables:
        writer.writerow(())
        writer.writerow((table.name,))
        writer.writerow(table.columns)
        writer.writerows(map(_csv_cell, row) for row in table.rows)
    return text.getvalue()


def _csv_cell(cell: Cell) -> str:
    return str(cell) if isinstance(cell, int) else escape_cell(one_line(cell))


def report_html(report: PeriodReport) -> str:
    """Return a report as one page for printing: no script, nothing fetched, every text escaped."""
    page = (files("demur.audit") / "period_report.html").read_text(encoding="utf-8")
    return Template(page).substitute(
        title=escape_html(describe_period(report)),
        tone={True: "good", False: "bad", None: "unsure"}[report.chains_hold],
        verdict=escape_html(describe_chains(report)),
        facts=escape_html(f"Tenants: {', '.join(report.tenants) or 'none'}"),
        version=escape_html(__version__),
        sections="\n".join(map(_render_table, report.tables)),
    )


def escape_html(cell: Cell) -> str:
    """Return a cell as escaped HTML on one line, without hidden characters."""
    return escape(one_line(str(cell)))


def describe_period(report: PeriodReport) -> str:
    """Return the period in words."""
    since, until = (_shorten_time(time) for time in (report.since, report.until))
    return f"Decisions from {since} to {until} (UTC)"


def describe_chains(report: PeriodReport) -> str:
    """Return the state of the chains in words."""
    if report.chains_hold is None:
        return "The chains were not verified for this report."
    return "The chains are valid." if report.chains_hold else "A chain is broken."


def _shorten_time(time: str) -> str:
    """Return a time without the parts that are zero."""
    day, _, clock = time.removesuffix("Z").partition("T")
    clock = clock.removesuffix(".000").removesuffix(":00")
    return day if clock in {"", "00:00"} else f"{day} {clock}"


def _render_table(table: ReportTable) -> str:
    head = "".join(
        f'<th scope="col">{escape_html(name.replace("_", " "))}</th>' for name in table.columns
    )
    rows = "\n".join(f"<tr>{''.join(map(_render_cell, row))}</tr>" for row in table.rows)
    body = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    note = f'<p class="dim">{escape_html(table.note)}</p>' if table.note else ""
    shown = body if table.rows else '<p class="dim">None.</p>'
    return f"<section>\n<h2>{escape_html(table.title)}</h2>\n{note}{shown}\n</section>"


def _is_long(cell: Cell) -> bool:
    return any(len(word) > _MAX_WORD for word in str(cell).split())


def _render_cell(cell: Cell) -> str:
    is_number = isinstance(cell, int)
    # Digests may break anywhere, so that a table fits on paper.
    kind = ' class="n"' if is_number else ' class="d"' if _is_long(cell) else ""
    return f"<td{kind}>{escape_html(cell)}</td>"

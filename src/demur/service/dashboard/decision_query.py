"""What a page of decisions is asked for: filters, order and range, and the neighbours in it."""

from typing import NamedTuple

import msgspec

from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.model.decision import Outcome
from demur.service.calls import ApiCall
from demur.service.dashboard.time_range import TimeRange, read_range
from demur.service.problem import ProblemError
from demur.service.routes.decisions import filter_from_query, is_page_start
from demur.source.item import closest_name
from demur.store.backend import RecordFilter

_MAX_NEIGHBOURS_READ = 500
FILTER_NAMES = (
    "q",
    "outcome",
    "verdict",
    "output",
    "class",
    "code",
    "action",
    "subject",
    "request_id",
    "unreviewed",
    "sort",
)
SORT_ORDERS = {"newest": "Newest first", "oldest": "Oldest first", "amount": "Largest amount first"}
FILTER_CHOICES: dict[str, list[str]] = {
    "outcome": [str(word) for word in Outcome],
    "verdict": [str(word) for word in Verdict],
    "output": [str(word) for word in DecisionOutput],
    "class": [str(word) for word in RefusalClass],
    "unreviewed": ["0", "1"],
    "sort": list(SORT_ORDERS),
}


class DecisionQuery(NamedTuple):
    """What a page of decisions shows: the filter without a page, the order, and the range."""

    record_filter: RecordFilter
    sort: str
    time_range: TimeRange | None


def read_decision_query(call: ApiCall) -> DecisionQuery:
    """Return what the query of a call asks for.

    Raises:
        ProblemError: A part of it is invalid.
    """
    time_range = read_range(call.query, call.service.clock(), None)
    query = dict(call.query)
    if time_range is not None:
        query |= {"since": time_range.since, "until": time_range.until}
    found = filter_from_query(call._replace(query=query))
    sort = call.query.get("sort") or "newest"
    return DecisionQuery(found._replace(before=None, after=None), sort, time_range)


def drop_unknown(call: ApiCall) -> tuple[ApiCall, str]:
    """Return the call without filters that nothing can match, and what to say about them."""
    bad = [
        name
        for name, words in FILTER_CHOICES.items()
        if call.query.get(name, "") not in {"", *words}
    ]
    bad += [name for name in ("before", "after") if not is_page_start(call.query.get(name, ""))]
    problem = f"There is no such {' and no such '.join(bad)}; it was left out." if bad else ""
    unknown = _unknown_code_problem(call)
    if unknown:
        bad.append("code")
        problem = f"{problem} {unknown}".strip()
    query = {name: value for name, value in call.query.items() if name not in bad}
    return call._replace(query=query), problem


def _unknown_code_problem(call: ApiCall) -> str:
    """Return what is wrong with the code of the query, or an empty string if it is known."""
    code, registry = call.query.get("code", ""), call.service.gate.registry
    if not code or code in registry:
        return ""
    # Old records may name a code that no registry has any more.
    named = RecordFilter(tenant=call.chosen_tenant(), reason_code=code)
    if call.service.store.match_records(named).rows:
        return ""
    near = closest_name(code, (entry.code for entry in registry))
    guess = f" Did you mean {near}?" if near else ""
    return f"There is no code {code[:80]}; it was left out.{guess}"


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions just before and after one in a list; empty where there is none."""

    newer: str = ""
    older: str = ""


def find_neighbours(call: ApiCall, decision_id: str) -> tuple[Neighbours, dict[str, str]]:
    """Return the neighbours of a decision in the list of the query, and that query.

    Only a bounded number of records on both sides is looked at.
    """
    call, _ = drop_unknown(call)
    filters = {name: call.query.get(name, "") for name in FILTER_NAMES}
    try:
        query = read_decision_query(call).record_filter
    except ProblemError:
        return Neighbours(), {}
    store, read = call.service.store, _MAX_NEIGHBOURS_READ
    older = store.match_records(query._replace(before=decision_id), window=read).rows
    newer = store.match_records(
        query._replace(after=decision_id), newest_first=False, window=read
    ).rows
    return Neighbours(
        newer=newer[0].decision_id if newer else "", older=older[0].decision_id if older else ""
    ), filters

"""The page of decisions, with filters and search."""

from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.model.record import DecisionRecord
from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.frame import render_page
from demur.service.dashboard.rendering import encode_segment
from demur.service.dashboard.rows import decision_row
from demur.service.finding_pages import find_newest
from demur.service.routes.decisions import is_page_start, filter_from_query
from demur.store.backend import RecordFilter

__all__ = ["decisions_page"]

_PER_PAGE = 50
_MIN_ID_LENGTH = 6
_MAX_ID_LENGTH = 26
# A subject is stored as `type:id`; people search for the id.
_SUBJECT_KINDS = ("customer", "user", "agent", "service")
_SHOWN_FILTERS = (
    "verdict",
    "output",
    "class",
    "code",
    "action",
    "subject",
    "request_id",
    "since",
    "until",
)
_FILTER_CHOICES: dict[str, list[str]] = {
    "verdict": [str(word) for word in Verdict],
    "output": [str(word) for word in DecisionOutput],
    "class": [str(word) for word in RefusalClass],
}


def decisions_page(call: ApiCall) -> ApiAnswer:
    """Return the page, or redirect to the one decision that the search found."""
    asked = call.query.get("q", "").strip()
    if asked:
        found = _search_decisions(call, asked)
        if isinstance(found, str):
            return ApiAnswer(b"", 303, headers={"location": f"/decisions/{encode_segment(found)}"})
        return _render_decisions(call, found, None, asked)
    call, problem = _drop_unknown_filters(call)
    wanted = filter_from_query(call)
    read = find_newest(call.service.store, wanted, call.service.clock(), _PER_PAGE + 1)
    beyond = read[_PER_PAGE - 1].decision_id if len(read) > _PER_PAGE else None
    return _render_decisions(call, read[:_PER_PAGE], beyond, "", problem)


def _drop_unknown_filters(call: ApiCall) -> tuple[ApiCall, str]:
    """Return the call without invalid filters, and a text that names them."""
    bad = [
        name
        for name, words in _FILTER_CHOICES.items()
        if call.query.get(name, "") not in {"", *words}
    ]
    if not is_page_start(call.query.get("before", "")):
        bad.append("before")
    query = {name: value for name, value in call.query.items() if name not in bad}
    problem = f"There is no such {' and no such '.join(bad)}; it was left out." if bad else ""
    return call._replace(query=query), problem


def _render_decisions(
    call: ApiCall,
    found: list[DecisionRecord],
    beyond: str | None,
    search_text: str,
    problem: str = "",
) -> ApiAnswer:
    filters = {name: call.query.get(name, "") for name in _SHOWN_FILTERS}
    return render_page(
        call,
        "decisions.html",
        title="Decisions",
        section="decisions",
        rows=[decision_row(record, with_tenant=call.chosen_tenant() is None) for record in found],
        filters=filters,
        filtered=any(filters.values()),
        unreviewed=call.query.get("unreviewed") == "1",
        asked=search_text,
        before=call.query.get("before", ""),
        beyond=beyond,
        problem=problem,
        words=_FILTER_CHOICES,
        codes=[entry.code for entry in call.service.gate.registry],
    )


def _search_decisions(call: ApiCall, search_text: str) -> str | list[DecisionRecord]:
    """Return the id of the one decision that matches, or all records of a subject."""
    store, tenant = call.service.store, call.chosen_tenant()
    if _MIN_ID_LENGTH <= len(search_text) <= _MAX_ID_LENGTH and search_text.isalnum():
        decision_id = store.resolve_id(search_text.upper(), call.caller.tenant)
        if decision_id is not None:
            return decision_id
    for name in [head.tenant for head in store.list_heads()] if tenant is None else [tenant]:
        record = store.by_request(name, search_text)
        if record is not None:
            return record.decision_id
    who = (
        [search_text]
        if ":" in search_text
        else [search_text, *(f"{kind}:{search_text}" for kind in _SUBJECT_KINDS)]
    )
    found = [
        record
        for subject in who
        for record in store.find_records(
            RecordFilter(tenant=tenant, subject=subject), newest_first=True, limit=_PER_PAGE
        )
    ]
    return sorted(found, key=lambda one: one.decision_id, reverse=True)[:_PER_PAGE]

"""The page of decisions, with filters and search."""

from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.model.record import DecisionRecord
from demur.service.call import Answer, Call
from demur.service.dashboard.frame import page
from demur.service.dashboard.rendering import segment
from demur.service.dashboard.rows import row_of
from demur.service.finding_pages import newest
from demur.service.routes.decisions import is_place, wanted_of
from demur.store.backend import Filter

__all__ = ["decisions"]

_PER_PAGE = 50
_SHORTEST_ID = 6
_LONGEST_ID = 26
# A subject is stored as `type:id`; people search for the id.
_KINDS = ("customer", "user", "agent", "service")
_FIELDS = (
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
_ALL_WORDS: dict[str, list[str]] = {
    "verdict": [str(word) for word in Verdict],
    "output": [str(word) for word in DecisionOutput],
    "class": [str(word) for word in RefusalClass],
}


def decisions(call: Call) -> Answer:
    """Return the page, or redirect to the one decision that the search found."""
    asked = call.query.get("q", "").strip()
    if asked:
        found = _searched(call, asked)
        if isinstance(found, str):
            return Answer(b"", 303, headers={"location": f"/decisions/{segment(found)}"})
        return _page(call, found, None, asked)
    call, problem = _usable(call)
    wanted = wanted_of(call)
    read = newest(call.service.store, wanted, call.service.clock(), _PER_PAGE + 1)
    beyond = read[_PER_PAGE - 1].decision_id if len(read) > _PER_PAGE else None
    return _page(call, read[:_PER_PAGE], beyond, "", problem)


def _usable(call: Call) -> tuple[Call, str]:
    """Return the call without invalid filters, and a text that names them."""
    bad = [
        name for name, words in _ALL_WORDS.items() if call.query.get(name, "") not in {"", *words}
    ]
    if not is_place(call.query.get("before", "")):
        bad.append("before")
    query = {name: value for name, value in call.query.items() if name not in bad}
    problem = f"There is no such {' and no such '.join(bad)}; it was left out." if bad else ""
    return call._replace(query=query), problem


def _page(
    call: Call, found: list[DecisionRecord], beyond: str | None, asked: str, problem: str = ""
) -> Answer:
    filters = {name: call.query.get(name, "") for name in _FIELDS}
    return page(
        call,
        "decisions.html",
        title="Decisions",
        section="decisions",
        rows=[row_of(record, with_tenant=call.tenant() is None) for record in found],
        filters=filters,
        filtered=any(filters.values()),
        unreviewed=call.query.get("unreviewed") == "1",
        asked=asked,
        before=call.query.get("before", ""),
        beyond=beyond,
        problem=problem,
        words=_ALL_WORDS,
        codes=[entry.code for entry in call.service.gate.registry],
    )


def _searched(call: Call, asked: str) -> str | list[DecisionRecord]:
    """Return the id of the one decision that matches, or all records of a subject."""
    store, tenant = call.service.store, call.tenant()
    if _SHORTEST_ID <= len(asked) <= _LONGEST_ID and asked.isalnum():
        decision_id = store.resolve_id(asked.upper(), call.caller.tenant)
        if decision_id is not None:
            return decision_id
    for name in [head.tenant for head in store.heads()] if tenant is None else [tenant]:
        record = store.by_request(name, asked)
        if record is not None:
            return record.decision_id
    who = [asked] if ":" in asked else [asked, *(f"{kind}:{asked}" for kind in _KINDS)]
    found = [
        record
        for subject in who
        for record in store.find(
            Filter(tenant=tenant, subject=subject), newest_first=True, limit=_PER_PAGE
        )
    ]
    return sorted(found, key=lambda one: one.decision_id, reverse=True)[:_PER_PAGE]

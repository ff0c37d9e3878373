"""Find decision records by id, and print them in a few lines or as JSON."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from demur.cli.classify import describe_decision, exit_status
from demur.cli.terminal import Paint, wrap_text
from demur.errors import InputError, one_line
from demur.gate.asking import DEFAULT_TENANT
from demur.model.record import DecisionRecord
from demur.store.backend import RecordFilter
from demur.store.store import Store

__all__ = [
    "ID_HELP",
    "NEWEST",
    "record_to_json",
    "describe_record",
    "find_record",
    "record_to_json_line",
    "label_lines",
    "record_status",
]

NEWEST = "last"
ID_HELP = "a decision's id, or its beginning; `last` is the newest, `request:ID` goes by request id"
_BY_REQUEST = "request:"


def find_record(store: Store, name: str, tenant: str | None = None) -> DecisionRecord:
    """Return the decision that `name` refers to: an id or its prefix, `last`, or `request:ID`.

    Raises:
        InputError: No decision matches, or several do.
    """
    if name == NEWEST:
        newest = store.find_records(RecordFilter(tenant=tenant), newest_first=True, limit=1)
        record = next(newest, None)
        problem = "there is no decision yet"
    elif name.startswith(_BY_REQUEST):
        request_id, owner = name.removeprefix(_BY_REQUEST), tenant or DEFAULT_TENANT
        record = store.by_request(owner, request_id)
        problem = f"there is no decision on a request `{request_id}` of tenant `{owner}`"
    else:
        found = store.resolve_id(name.upper()) if name else None
        record = None if found is None else store.get(found, tenant)
        problem = f"there is no decision `{name}`" + (f" of tenant `{tenant}`" if tenant else "")
    if record is None:
        raise InputError(problem, help="`demur show` lists the newest ones")
    return record


def record_status(record: DecisionRecord) -> int:
    """Return the exit status of a decision: 0 in advisory mode, which does not bind."""
    return exit_status(record.decision) if record.enforced else 0


def describe_record(record: DecisionRecord, paint: Paint, id_text: str) -> str:
    """Return a decision as a few lines; `id_text` is its id and where it is stored."""
    lines = [describe_decision(record.decision, paint)]
    lines += label_lines([*_describe_details(record), ("id", id_text)], paint)
    if not record.enforced:
        note = "advisory mode: the decision is recorded and does not bind; the action may run"
        lines.append(f"{paint('note:', 'cyan')} {note}")
    return "\n".join(lines)


def label_lines(pairs: Iterable[tuple[str, str]], paint: Paint) -> Iterator[str]:
    """Yield each label and text as one wrapped, indented line."""
    for label, text in pairs:
        body = wrap_text(one_line(text), " " * 7).lstrip()
        yield f"  {paint(label.ljust(4), 'dim')} {body}"


def _describe_details(record: DecisionRecord) -> Iterator[tuple[str, str]]:
    if record.reason_codes:
        yield "code", ", ".join(record.reason_codes)
    if record.matched_rules:
        rules = (f"{rule.rule_id} ({rule.stage})" for rule in record.matched_rules)
        yield "rule", ", ".join(rules)
    if record.shadow_rules:
        yield "rule", f"{', '.join(record.shadow_rules)} (shadow: does not count)"
    for fact in record.invalid:
        yield "bad", f"{fact.path} cannot be used by {fact.rule_id}"
    lifted = [code for code in record.resolved_codes if code not in record.reason_codes]
    if lifted:
        yield "lift", f"{', '.join(lifted)}{_describe_lifters(record)}"
    bound = [code for code in record.resolved_codes if code in record.reason_codes]
    if bound:
        yield "keep", f"{'; '.join(record.accepted)} ({', '.join(bound)})"
    for grant in record.ignored_grants:
        # A grant that was ignored at first may have been applied later.
        if grant.grant_id not in record.lifted_by:
            yield "void", f"grant {grant.grant_id}: {grant.why.replace('_', ' ')}"


def _describe_lifters(record: DecisionRecord) -> str:
    """Return who lifted the codes, if the grants were not erased."""
    grants = () if record.personal is None else record.personal.grants
    holders = {grant.grant_id: grant.granted_by for grant in grants}
    named = (f"{holders.get(one, 'grant')} ({one})" for one in record.lifted_by)
    return f" by {', '.join(named)}" if record.lifted_by else ""


def record_to_json(record: DecisionRecord) -> str:
    """Return the whole record as JSON for people and tools."""
    return json.dumps(_record_to_object(record), indent=2)


def record_to_json_line(record: DecisionRecord) -> str:
    """Return the whole record as JSON on one line."""
    return json.dumps(_record_to_object(record), separators=(",", ":"))


def _record_to_object(record: DecisionRecord) -> dict[str, Any]:
    return {key: record[key] for key in record}

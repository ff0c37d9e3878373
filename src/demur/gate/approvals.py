"""What waits for a person: which refusals people can lift, who may not decide, and what is due.

Everything here is pure: rows, records and the time come in as arguments. `ApprovalQueue` does it.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple
from unicodedata import normalize
from urllib.parse import urlsplit

import msgspec

from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, Verdict
from demur.errors import InputError
from demur.gate.clock import format_timestamp
from demur.model.record import DecisionRecord
from demur.store.rows import ApprovalRow, ApprovalState

_DAY_S = 86_400.0
_Seconds = Annotated[float, msgspec.Meta(ge=1, le=30 * _DAY_S)]
_Group = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[^\s\x00-\x1f]+$")]
_Address = Annotated[str, msgspec.Meta(max_length=2000, pattern=r"^[\x21-\x7e]*$")]
# An approval without its resolution for this long lost the process that was to make it.
_RESOLVE_AFTER = timedelta(seconds=5)


class ApprovalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[approvals]` part of the settings file.

    A request waits `expires_s`. The first of the `groups` decides; each `escalate_after_s` without
    an answer, the next one does. Without groups, any approver of the tenant decides.

    Notices go to `webhook` in a `format`, and lead to the dashboard at `link`: when a request
    begins to wait, when another group decides, and with `notify_closed` when it ends. They name the
    action and the reasons; with `name_people`, also who asks and who decided.
    """

    expires_s: _Seconds = _DAY_S
    groups: tuple[_Group, ...] = ()
    escalate_after_s: _Seconds | None = None
    webhook: _Address = ""
    format: Literal["json", "slack", "teams"] = "json"
    link: _Address = ""
    notify_closed: bool = False
    name_people: bool = False

    def __post_init__(self) -> None:
        if len({*self.groups}) < len(self.groups):
            raise ValueError("`groups` names a group twice")
        if self.webhook and not self.link:
            raise ValueError("`link` is the address of the dashboard, to which notices lead")
        for name in ("webhook", "link"):
            address = getattr(self, name)
            if address and not _is_http_address(address):
                # The address of a webhook is often a secret.
                raise ValueError(f"`{name}` begins with https:// or http:// and a host")


def _is_http_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(host)


def waits_for_approval(entry: Entry) -> bool:
    """Return whether a person's yes lifts a code, rather than a missing right, fact or quota."""
    return bool(entry.grants) and entry.decided and entry.advice is Advice.REQUEST_APPROVAL


def can_people_lift(record: DecisionRecord, registry: Registry) -> bool:
    """Return whether people can lift a refusal: all of it waits for them, or for constraints."""
    is_refused = record.verdict in {Verdict.DENY, Verdict.ESCALATE} and record.enforced
    if not is_refused or record.basis != "request":
        return False
    entries = [registry[code] for code in record.reason_codes]
    entries = [entry for entry in entries if entry.refusal_class is not None]
    others = [entry for entry in entries if not waits_for_approval(entry)]
    # INVARIANT: nobody is asked about what they cannot lift.
    can_bind = bool(record.constraints)
    return len(others) < len(entries) and all(
        can_bind and one.refusal_class is RefusalClass.SOFT_BLOCK for one in others
    )


def open_approval(
    record: DecisionRecord,
    requester: str | None,
    registry: Registry,
    settings: ApprovalSettings,
    now: datetime,
) -> ApprovalRow | None:
    """Return the request for approval that a record begins, or None if nobody is asked."""
    if requester is None or not can_people_lift(record, registry):
        return None
    entries = [registry[code] for code in record.reason_codes]
    asked = [entry for entry in entries if waits_for_approval(entry)]
    return ApprovalRow(
        decision_id=record.decision_id,
        tenant=record.tenant,
        action_type=record.action_type,
        reason_codes=tuple(entry.code for entry in asked),
        kinds=tuple(dict.fromkeys(str(entry.grants[0]) for entry in asked)),
        needed=record.approvals,
        requested_at=record.created_at,
        expires_at=format_timestamp(now + timedelta(seconds=settings.expires_s)),
        group_name=settings.groups[0] if settings.groups else "",
    )


# Fields in which a request may name the person behind an agent.
_SUBJECT_FIELDS = ("id", "name", "email", "user", "user_id", "on_behalf_of", "requested_by")
_PERSON_FIELDS = ("id", "name", "email", "login", "user_id")
_OTHER_FIELDS = ("user", "user_id", "on_behalf_of", "requested_by")


def is_own_request(login: str, record: DecisionRecord) -> bool:
    """Return whether a request was made by a person, or names them as whom it is made for."""
    personal = record.personal
    return personal is not None and concerns(login, personal.requester, personal.request)


def concerns(login: str, requester: str | None, request: Mapping[str, Any]) -> bool:
    """Return whether a person is the requester, or named in a request as whom it is made for."""
    own = _fold_name(login)
    names = (requester, *_named_people(request))
    folded = (_fold_name(name) for name in names if name)
    return any(own in {name, name.rpartition(":")[2].strip()} for name in folded)


def _fold_name(name: str) -> str:
    """Return a name without case, full-width forms and hidden characters."""
    folded = normalize("NFKC", name).casefold()
    return "".join(filter(str.isprintable, folded)).strip()


def _named_people(request: Mapping[str, Any]) -> Iterator[str]:
    for part, fields in (
        ("subject", _SUBJECT_FIELDS),
        ("context", _OTHER_FIELDS),
        ("extensions", _OTHER_FIELDS),
        ("evidence", _OTHER_FIELDS),
    ):
        found = request.get(part)
        known: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        for field in fields:
            yield from _list_names(known.get(field))


def _list_names(value: Any) -> Iterator[str]:
    """Yield the names in a field: a text, a person with an id or an address, or several."""
    for one in value if isinstance(value, list | tuple) else [value]:
        named = [one.get(name) for name in _PERSON_FIELDS] if isinstance(one, Mapping) else [one]
        yield from (name for name in named if isinstance(name, str))


def is_settled(row: ApprovalRow) -> bool:
    """Return whether a requester need not wait any longer."""
    if row.state == ApprovalState.APPROVED:
        return row.resolution_id is not None
    return row.state != ApprovalState.WAITING


_PROCEED = {
    ApprovalState.WAITING: "Nobody has decided yet: wait again.",
    ApprovalState.DECLINED: "A person said no: do not send the request again.",
    ApprovalState.EXPIRED: "Nobody decided in time: send the request again if it is still needed.",
}


def describe_next_step(row: ApprovalRow) -> str:
    """Return in one sentence how the requester goes on."""
    if not is_settled(row):
        return _PROCEED[ApprovalState.WAITING]
    if row.state == ApprovalState.APPROVED:
        return f"Send the request again with `continues: {row.resolution_id}`."
    return _PROCEED[ApprovalState(row.state)]


def shown_state(row: ApprovalRow, now: datetime) -> str:
    """Return where a request stands; one whose time is over has expired, closed or not."""
    is_over = row.state == ApprovalState.WAITING and row.expires_at <= format_timestamp(now)
    return str(ApprovalState.EXPIRED) if is_over else row.state


def describe_limits(limits: Mapping[str, Any]) -> str:
    """Return the limits of an approval in words; empty if there are none."""
    if not limits:
        return ""
    valid = describe_period(int(limits.get("valid_s", 0)))
    if limits.get("covers") != "scope":
        return f"this request, once, within {valid}"
    uses = limits.get("uses", 1)
    times = "once" if uses == 1 else f"{uses} times"
    return f"this action of the same requester, {times} within {valid}"


def describe_period(seconds: int) -> str:
    """Return a period in its largest whole unit, like `8 hours`."""
    units = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
    name, size = next(item for item in units.items() if seconds % item[1] == 0)
    count = seconds // size
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


class DueStep(NamedTuple):
    """What is due for a request: it expires, another group decides, or its resolution is made."""

    row: ApprovalRow
    kind: Literal["expire", "escalate", "resolve"]
    group: str = ""


def find_due(
    rows: Iterable[ApprovalRow], now: datetime, settings: ApprovalSettings
) -> Iterator[DueStep]:
    """Yield what is due at a time. The same rows and time always give the same steps."""
    moment = format_timestamp(now)
    lost = format_timestamp(now - _RESOLVE_AFTER)
    for row in rows:
        if row.state == ApprovalState.APPROVED:
            if row.resolution_id is None and (row.closed_at or "") <= lost:
                yield DueStep(row, "resolve")
        elif row.state != ApprovalState.WAITING:
            continue
        elif row.expires_at <= moment:
            yield DueStep(row, "expire")
        elif group := _due_group(row, now, settings):
            yield DueStep(row, "escalate", group)


def _due_group(row: ApprovalRow, now: datetime, settings: ApprovalSettings) -> str | None:
    """Return the group that is to decide now, if it is a later one than the row says."""
    if settings.escalate_after_s is None or not settings.groups:
        return None
    waited_s = (now - parse_moment(row.requested_at)).total_seconds()
    place = min(int(waited_s // settings.escalate_after_s), len(settings.groups) - 1)
    known = row.group_name in settings.groups
    is_later = known and place > settings.groups.index(row.group_name)
    return settings.groups[place] if is_later else None


def parse_moment(text: str) -> datetime:
    """Return a time as records write it.

    Raises:
        InputError: It is none.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"cannot read `{text}` as a time") from error

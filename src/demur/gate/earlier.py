"""Earlier decisions: the one that a request continues, earlier attempts and their grants."""

from msgspec.structs import replace

from demur.codes.vocabulary import Verdict
from demur.errors import InputError
from demur.gate.asking import PreparedRequest, RequestAttempt
from demur.model.record import DecisionRecord
from demur.store.backend import StorageError
from demur.store.store import Store

__all__ = ["check_resolvable", "attach_history", "require_record"]


def require_record(
    store: Store | None, decision_id: str, tenant: str | None
) -> tuple[Store, DecisionRecord]:
    """Return the store and the decision of that id in it.

    Raises:
        InputError: There is no such decision, or it is another tenant's.
        StorageError: The store cannot be read, or what it holds was changed.
    """
    if store is None:
        raise InputError("without a store there are no earlier decisions", where="continues")
    record = store.get(decision_id)
    # Do not reveal that another tenant's decision exists.
    if record is None or (tenant is not None and record.tenant != tenant):
        raise InputError(f"there is no decision `{decision_id}`", where="continues")
    if not record.seal_holds:
        raise StorageError("the sealed part is not what was decided on", where=decision_id)
    return store, record


def attach_history(
    store: Store | None, prepared: PreparedRequest, max_attempts: int
) -> PreparedRequest:
    """Return the request with its place in the chain of attempts, and the grants of that chain.

    Attempts are counted over the whole family, so that continuing the first decision
    again and again gains nothing.

    Raises:
        InputError: There is no such decision, or another requester made that request.
    """
    if prepared.request.continues is None:
        first = RequestAttempt(attempts_left=max_attempts > 1)
        return prepared if first == prepared.continued else replace(prepared, continued=first)
    there, before = require_record(store, prepared.request.continues, prepared.tenant)
    personal = before.personal
    if personal is None:
        raise InputError("the decision was erased and cannot be continued", where="continues")
    if personal.requester != prepared.request.requester:
        raise InputError("only the first requester can continue a decision", where="continues")
    root_id = before.root_id or before.decision_id
    family = there.list_family(prepared.tenant, root_id)
    attempt = 1 + sum(record.basis != "resolution" for record in family)
    earlier = {
        grant.grant_id: grant
        for record in family
        if record.personal is not None
        for grant in record.personal.grants
    }
    for grant in prepared.beside.grants:
        earlier.pop(grant.grant_id, None)
    place = RequestAttempt(root_id, attempt, attempt < max_attempts, tuple(earlier.values()))
    return replace(prepared, continued=place)


def check_resolvable(before: DecisionRecord) -> None:
    """Refuse to resolve a decision that allows; a lifted block may have come back since."""
    if before.verdict is Verdict.ALLOW:
        raise InputError(f"decision `{before.decision_id}` allows: there is nothing to resolve")

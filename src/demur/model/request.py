"""A request: an action that somebody wants to take, checked for its shape and read-only.

The parts that demur itself reads are typed. Other fields are open, because policies can read any
field. A request only claims: it cannot set findings, grants or the mode.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from demur.canonical import CanonicalJson, canonicalise, fast_encode, require_readable
from demur.errors import InputError, InputTypeError

SCHEMA_VERSION = "decision_request.v1"
MAX_REQUEST_BYTES = 1_000_000
MAX_NAME_LENGTH = 256
DEFAULT_TENANT = "default"

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
JsonObject = dict[str, Any]

# Names that callers cannot give to their signals: those of a recall, and the group of guards.
MEMORY_SIGNALS = (
    "failure_similarity",
    "grave_failure_score",
    "memory_exact",
    "success_similarity",
    "uncertainty_score",
)
GUARD_SIGNALS = "guards"

_NOT_FROM_CALLERS = {
    "findings": "findings of guards come in beside the request: `decide(request, findings=...)`",
    "grants": "grants come in beside the request: `decide(request, grants=...)`",
    "accepted": "accepted constraints come in beside the request: `decide(request, accepted=...)`",
    "memory": "the operator sets what memory may do, on the gate",
    "mode": "the operator sets the mode, in the policy or on the gate",
    "redaction": "the operator sets the redaction, on the gate",
    "signals": "signals come in beside the request: `decide(request, signals=...)`",
}


def own_signals(signals: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recorded signals without those of memory."""
    return {name: value for name, value in signals.items() if name not in MEMORY_SIGNALS}


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """The requested action."""

    type: Name
    intent: str | None = None
    amount: JsonObject | None = None
    target: JsonObject | None = None
    tags: list[str] | None = None


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The requester."""

    id: Name | None = None
    type: Name | None = None
    roles: list[str] | None = None

    @property
    def name(self) -> str | None:
        """The requester as grants name it: `agent:billing`."""
        return f"{self.type}:{self.id}" if self.type and self.id else self.id


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant that it is decided for."""

    id: Name


class PolicyPin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy that the caller expects to apply."""

    policy_id: Name | None = None
    policy_version: Name | None = None


class RequestShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parts of a request and their types; only `action` is required."""

    action: Action
    subject: Subject | None = None
    tenant: Tenant | None = None
    request_id: Name | None = None
    continues: Name | None = None
    evidence: JsonObject | None = None
    context: JsonObject | None = None
    context_ref: JsonObject | None = None
    extensions: JsonObject | None = None
    trace: JsonObject | None = None
    policy: PolicyPin | None = None
    schema_version: Literal["decision_request.v1"] | None = None


REQUEST_KEYS = tuple(sorted(RequestShape.__struct_fields__))


class Request:
    """A checked request: typed parts, all facts as plain JSON, and canonical bytes.

    `facts` is a private copy and must not be changed.
    """

    __slots__ = ("facts", "is_fast_canonical", "raw", "shape")

    def __init__(self, shape: RequestShape, canonical: CanonicalJson) -> None:
        self.shape = shape
        self.facts: dict[str, Any] = canonical.value
        self.raw = canonical.raw
        self.is_fast_canonical = canonical.is_fast_canonical

    @property
    def action(self) -> Action:
        """The requested action."""
        return self.shape.action

    @property
    def request_id(self) -> str | None:
        """The caller's id of this request; each id is decided once."""
        return self.shape.request_id

    @property
    def continues(self) -> str | None:
        """The decision that this request follows up on."""
        return self.shape.continues

    @property
    def tenant(self) -> str | None:
        """The tenant that it is decided for."""
        return None if self.shape.tenant is None else self.shape.tenant.id

    @property
    def requester(self) -> str | None:
        """The requester as grants name it."""
        return None if self.shape.subject is None else self.shape.subject.name

    @property
    def pin(self) -> PolicyPin | None:
        """The policy that the caller expects."""
        return self.shape.policy


def read_request(value: Mapping[str, Any]) -> Request:
    """Return the request in `value`, checked and copied.

    Raises:
        InputError: A part is missing, unknown, too large or cannot be used; `where` is its path.
        InputTypeError: It is no mapping.
    """
    if value.__class__ is not dict and not isinstance(value, Mapping):
        raise InputTypeError.wrong_type("a request", "a mapping", value)
    canonical = require_readable(canonicalise(value))
    if len(canonical.raw) > MAX_REQUEST_BYTES:
        raise _too_large_error(canonical.value)
    try:
        shape = msgspec.convert(canonical.value, RequestShape)
    except msgspec.ValidationError as error:
        raise _request_error(str(error), canonical.value) from None
    for where, name in _named_fields(shape):
        # Names go to columns, chains and terminals, so they must be printable.
        if name is not None and not name.isprintable():
            raise InputError(f"`{name}` holds a character that cannot be shown", where=where)
    _check_subject(shape.subject)
    return Request(shape, canonical)


def _check_subject(subject: Subject | None) -> None:
    """Refuse a name that could pass for another: grants are given to `type:id`."""
    if subject is None:
        return
    if subject.type is not None and ":" in subject.type:
        raise InputError("the type of a subject holds no `:`", where="subject.type")
    if subject.type is None and subject.id is not None and ":" in subject.id:
        remedy = "give the part before `:` as `subject.type`"
        raise InputError("an id with a `:` needs a type beside it", where="subject.id", help=remedy)


def _named_fields(shape: RequestShape) -> tuple[tuple[str, str | None], ...]:
    subject, tenant = shape.subject, shape.tenant
    return (
        ("action.type", shape.action.type),
        ("request_id", shape.request_id),
        ("continues", shape.continues),
        ("tenant.id", None if tenant is None else tenant.id),
        ("subject.id", None if subject is None else subject.id),
        ("subject.type", None if subject is None else subject.type),
    )


def _too_large_error(facts: Mapping[str, Any]) -> InputError:
    largest = max(facts, key=lambda part: len(fast_encode(facts[part])))
    return InputError(
        f"a request has at most {MAX_REQUEST_BYTES} bytes",
        where=largest if largest in REQUEST_KEYS else None,
        help="store large content elsewhere, and name it in `context_ref`",
    )


def _request_error(message: str, facts: Mapping[str, Any]) -> InputError:
    """Return the validator's message as an `InputError`."""
    problem, _, path = message.partition(" - at ")
    where = path.strip("`").removeprefix("$").lstrip(".") or None
    problem = problem[:1].lower() + problem[1:]
    unknown = next((key for key in facts if key not in REQUEST_KEYS), None)
    if unknown is not None and "unknown field" in problem and where is None:
        help_text = _NOT_FROM_CALLERS.get(unknown, f"one of {', '.join(REQUEST_KEYS)}")
        return InputError(f"a request has no field `{unknown}`", where=unknown, help=help_text)
    field = problem.removeprefix("object contains unknown field ").strip("`")
    return InputError(problem, where=where, help=_NOT_FROM_CALLERS.get(field))

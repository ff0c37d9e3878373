"""Everything that comes with a request, checked and prepared for the engine.

`Inputs` is what a caller passes beside the request, `PreparedRequest` the checked and redacted
whole, and `RequestAttempt` its place among the attempts that continue one earlier decision.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from demur.canonical import (
    CanonicalJson,
    canonical_bytes,
    canonicalise,
    digest,
    digest_of_bytes,
    fast_encode,
    require_readable,
)
from demur.classification import unique_names
from demur.codes.registry import Registry
from demur.errors import InputError, InputTypeError
from demur.gate.redaction import RedactedRequest, RedactionProfile, redact_request, scrub_texts
from demur.model.finding import Finding
from demur.model.grant import Grant, RecordedGrant
from demur.model.record import DecisionRecord, Excerpt, ModelRef
from demur.model.request import (
    DEFAULT_TENANT,
    GUARD_SIGNALS,
    MAX_NAME_LENGTH,
    MEMORY_SIGNALS,
    Request,
    read_request,
)
from demur.policy.policy import Policy
from demur.store.backend import StorageError
from demur.store.store import Store

_Part = TypeVar("_Part", Finding, Grant)

_SIGNAL_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_SIGNAL_KINDS = "a signal is a number, a text or a boolean"

# Keys that identify or link a request and are not part of its substance.
_IDENTITY_KEYS = {"continues", "policy", "request_id", "schema_version", "tenant", "trace"}
_TARGET_KEYS = ("system", "resource_type", "resource_id")


class Inputs(msgspec.Struct, frozen=True):
    """The checked inputs beside the request. A request cannot set any of them."""

    findings: tuple[Finding, ...] = ()
    grants: tuple[Grant, ...] = ()
    accepted: tuple[str, ...] = ()
    signals: Mapping[str, Any] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there are no inputs."""
        return not (self.findings or self.grants or self.accepted or self.signals)

    def digest(self, request: Mapping[str, Any]) -> str:
        """Return the digest of these inputs together with a recorded request."""
        parts = {"findings": self.findings, "grants": self.grants, "accepted": self.accepted}
        plain = msgspec.to_builtins(parts)
        return digest({"request": request, "signals": dict(self.signals), **plain})


class RequestAttempt(msgspec.Struct, frozen=True):
    """The place of a request in its chain of attempts."""

    root_id: str | None = None
    number: int = 1
    attempts_left: bool = True
    grants: tuple[Grant, ...] = ()


class PreparedRequest(msgspec.Struct, frozen=True):
    """A request that was checked and redacted, ready for the engine."""

    request: Request
    tenant: str
    inputs: Inputs
    redacted: RedactedRequest
    attempt: RequestAttempt
    now: datetime
    scope: Mapping[str, str] | None = None
    # The subjects that the caller proved to be; None trusts the request.
    subjects: frozenset[str] | None = None
    # The models whose scores are among the signals.
    models: Mapping[str, ModelRef] = {}
    # What was said, for the record only.
    excerpt: Excerpt | None = None
    # A replay keeps grants as they were recorded.
    is_replay: bool = False

    @property
    def grants(self) -> tuple[Grant, ...]:
        """The grants of this request, and those of earlier attempts."""
        own, earlier = self.inputs.grants, self.attempt.grants
        return (*own, *earlier) if earlier else own

    def fingerprint(self, salt: str) -> str:
        """Return a salted digest of the request and its inputs, before redaction."""
        raw, inputs = salt.encode() + self.request.raw, self.inputs
        if not inputs.is_empty:
            # The wording of findings does not make another request.
            findings = sorted([f.code, str(f.surface), str(f.action)] for f in inputs.findings)
            identity = {
                "findings": findings,
                "grants": sorted(map(_grant_identity, inputs.grants)),
                "accepted": sorted(inputs.accepted),
                "signals": dict(inputs.signals),
            }
            raw += b"\n" + canonical_bytes(identity)
        return f"sha256:{sha256(raw).hexdigest()}"

    def inputs_digest(self) -> str:
        """Return the digest of the request and inputs as recorded."""
        inputs = self.stored_inputs
        if inputs.is_empty and not self.redacted.removed:
            # Reuse the bytes of the request; the rest is constant without inputs.
            return digest_of_bytes(_REQUEST_ONLY[0] + self.request.raw + _REQUEST_ONLY[1])
        return inputs.digest(self.redacted.request)

    @property
    def stored_inputs(self) -> Inputs:
        """The inputs beside the request, redacted for storage."""
        texts, inputs = self.redacted.texts, self.inputs
        if inputs is _NO_INPUTS and self.attempt is _FIRST_ATTEMPT:
            return inputs
        if grants := self.grants:
            recorded = grants if self.is_replay else map(RecordedGrant.from_grant, grants)
            inputs = replace(inputs, grants=tuple(recorded))
        if not self.redacted.details:
            findings = (replace(one, detail="", evidence={}) for one in inputs.findings)
        elif texts:
            scrub = partial(scrub_texts, texts=texts)
            findings = (
                replace(one, detail=scrub(one.detail), evidence=scrub(one.evidence))
                for one in inputs.findings
            )
        else:
            return inputs
        signals = scrub_texts(inputs.signals, texts)
        return replace(inputs, findings=tuple(findings), signals=signals)


def _grant_identity(grant: Grant) -> str:
    """Return what tells two grants apart; records of earlier versions know only the id."""
    if isinstance(grant, RecordedGrant):
        return grant.grant_id if grant.digest is msgspec.UNSET else grant.digest
    return grant.compute_digest()


_REQUEST_ONLY = (b'{"accepted":[],"findings":[],"grants":[],"request":', b',"signals":{}}')
_FIRST_ATTEMPT = RequestAttempt()
_NO_INPUTS = Inputs()


def prepare_request(
    request: Mapping[str, Any],
    *,
    registry: Registry,
    profile: RedactionProfile,
    now: datetime,
    tenant: str | None = None,
    findings: Iterable[Finding] = (),
    grants: Iterable[Grant] = (),
    accepted: Iterable[str] = (),
    signals: Mapping[str, Any] | None = None,
    guard_signals: Mapping[str, Any] | None = None,
    guard_models: Mapping[str, ModelRef] | None = None,
    subjects: Collection[str] | None = None,
) -> PreparedRequest:
    """Return the request and its inputs, checked and redacted.

    Raises:
        InputError: A part cannot be used; `where` is its path.
        InputTypeError: A part has the wrong type.
    """
    checked = read_request(request)
    inputs = _NO_INPUTS
    if findings != () or grants != () or accepted != () or signals or guard_signals:
        inputs = Inputs(
            _check_items("findings", findings, Finding),
            _check_items("grants", grants, Grant),
            tuple(_require_json("accepted", unique_names("accepted", accepted)).value),
            check_signals(signals, guard_signals),
        )
        for finding in inputs.findings:
            registry[finding.code]
    beside = None if inputs is _NO_INPUTS else _searched_inputs(inputs)
    redacted = redact_request(checked.facts, profile, beside, checked.raw)
    if beside is not None and redacted.texts:
        changed = {*redacted.removed, *_changed_signals(inputs.signals, redacted.texts)}
        if scrub_texts(inputs.accepted, redacted.texts) != list(inputs.accepted):
            changed.add("accepted")
        redacted = redacted._replace(removed=tuple(sorted(changed)))
    name = _resolve_tenant(checked, tenant)
    bound = None if subjects is None else frozenset(subjects)
    parts = (checked, name, inputs, redacted, _FIRST_ATTEMPT, now)
    return PreparedRequest(*parts, subjects=bound, models=_check_models(guard_models))


def _check_models(models: Mapping[str, ModelRef] | None) -> Mapping[str, ModelRef]:
    for name, model in (models or {}).items():
        if not isinstance(model, ModelRef):
            raise InputTypeError.wrong_type(f"guard_models.{name}", "a `ModelRef`", model)
    return models or {}


def _searched_inputs(inputs: Inputs) -> Any:
    """Return what is searched for secrets beside the request."""
    quoted = [(finding.detail, finding.evidence) for finding in inputs.findings]
    return (quoted, inputs.accepted, inputs.signals)


def check_policy_pin(prepared: PreparedRequest, policy: Policy) -> None:
    """Refuse a request that pins another policy."""
    pin = prepared.request.pin
    if pin is None:
        return
    for field in ("policy_id", "policy_version"):
        pinned, actual = getattr(pin, field), getattr(policy, field)
        if pinned is not None and pinned != actual:
            raise InputError(f"this gate uses `{actual}`, not `{pinned}`", where=f"policy.{field}")


def grant_scope(prepared: PreparedRequest, salt: str = "") -> Mapping[str, str]:
    """Return the scope that a grant must cover: action, tenant, target and request digest.

    `salt` is that of the record. It enters the digest if redaction removed something.
    """
    if prepared.scope is not None:
        return prepared.scope
    facts = prepared.request.facts
    # A grant is checked again later, so its scope holds only what may be stored.
    target = prepared.redacted.request["action"].get("target") or {}
    substance = {k: v for k, v in facts.items() if v is not None and k not in _IDENTITY_KEYS}
    encode = fast_encode if prepared.request.is_fast_canonical else canonical_bytes
    raw = encode(substance)
    return {
        **{key: name for key in _TARGET_KEYS if isinstance(name := target.get(key), str) and name},
        "action": prepared.request.action.type,
        "tenant": prepared.tenant,
        "request": _bound_digest(prepared, raw, salt),
    }


_SALTED = "salted-sha256:"


def _bound_digest(prepared: PreparedRequest, raw: bytes, salt: str) -> str:
    """Return the digest of the request before redaction, to which grants are bound."""
    if not prepared.redacted.removed:
        return digest_of_bytes(raw)
    # INVARIANT: no digest that is stored covers a removed text without a salt.
    for grant in prepared.grants:
        bound = grant.scope.get("request", "")
        if bound.startswith(_SALTED):
            own_salt = bound.removeprefix(_SALTED).partition(":")[0]
            if bound == _salted_digest(raw, own_salt):
                return bound
    return _salted_digest(raw, salt)


def _salted_digest(raw: bytes, salt: str) -> str:
    return f"{_SALTED}{salt}:{sha256(salt.encode() + raw).hexdigest()}"


def _resolve_tenant(request: Request, tenant: str | None) -> str:
    claimed = request.tenant
    if tenant is None:
        return claimed or DEFAULT_TENANT
    if not isinstance(tenant, str):
        raise InputTypeError.wrong_type("tenant", "a name", tenant)
    if not 0 < len(tenant) <= MAX_NAME_LENGTH:
        raise InputError(f"a tenant has 1 to {MAX_NAME_LENGTH} characters", where="tenant")
    if not tenant.isprintable():
        raise InputError("a tenant holds a character that cannot be shown", where="tenant")
    tenant = _require_json("tenant", tenant).value
    # INVARIANT: a request that names another tenant than the operator's is rejected.
    if claimed is not None and claimed != tenant:
        raise InputError(f"the request is for `{claimed}`, not for `{tenant}`", where="tenant.id")
    return tenant


def _check_items(what: str, items: Iterable[_Part], kind: type[_Part]) -> tuple[_Part, ...]:
    try:
        listed = tuple(items)
    except TypeError:
        raise InputTypeError.wrong_type(what, f"a list of {kind.__name__}", items) from None
    return tuple(_check_item(f"{what}.{index}", item, kind) for index, item in enumerate(listed))


def _check_item(where: str, item: _Part, kind: type[_Part]) -> _Part:
    """Return a copy of the item that can be stored and read back."""
    if not isinstance(item, kind):
        raise InputTypeError.wrong_type(where, f"a {kind.__name__}", item)
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    fields = {name: value for name, value in fields.items() if value is not msgspec.UNSET}
    if isinstance(item, Finding):
        fields["evidence"] = _require_json(f"{where}.evidence", item.evidence).value
    try:
        plain = msgspec.to_builtins(fields, builtin_types=(bytes, bytearray, memoryview))
        return msgspec.convert(_require_json(where, plain).value, kind)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        problem, _, at = str(error).partition(" - at ")
        place = at.strip("`").removeprefix("$")
        raise InputError(problem[:1].lower() + problem[1:], where=f"{where}{place}") from error


def _require_json(where: str, value: object) -> CanonicalJson:
    """Return the value in plain types; paths in errors start with `where`."""
    try:
        return require_readable(canonicalise(value))
    except InputError as error:
        place = where if error.where is None else f"{where}.{error.where}"
        raise InputError(error.problem, where=place, help=error.help) from None


def check_signals(
    signals: Mapping[str, Any] | None, guard_signals: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the signals of the caller, and those of guards under `guards`.

    Raises:
        InputError: A name or a value is invalid, or the name belongs to guards or memory.
    """
    own = _read_signals("signals", signals)
    # INVARIANT: a caller cannot write the signals of guards or of memory.
    for name, owner in (*((name, "memory") for name in MEMORY_SIGNALS), (GUARD_SIGNALS, "guards")):
        if name in own:
            help_text = f"only {owner} can set it: use another name"
            raise InputError(
                f"this name belongs to {owner}", where=f"signals.{name}", help=help_text
            )
    guards = _read_signals(f"signals.{GUARD_SIGNALS}", guard_signals)
    return {**own, GUARD_SIGNALS: guards} if guards else own


def _read_signals(where: str, signals: Mapping[str, Any] | None) -> dict[str, Any]:
    if signals is None:
        return {}
    if not isinstance(signals, Mapping):
        raise InputTypeError.wrong_type(where, "a mapping", signals)
    plain: dict[str, Any] = _require_json(where, signals).value
    for path, name, value in _walk_signals(plain, where):
        if not _SIGNAL_NAME.fullmatch(name):
            help_text = "letters, digits, `_` and `-`, like `fraud_score`"
            raise InputError("a rule cannot name this signal", where=path, help=help_text)
        if isinstance(value, list):
            raise InputError(_SIGNAL_KINDS, where=path, help="give each value a name of its own")
    return plain


def _walk_signals(signals: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, Any]]:
    """Yield path, name and value of each signal and of each group of signals."""
    for name, value in signals.items():
        yield f"{path}.{name}", name, value
        if isinstance(value, Mapping):
            yield from _walk_signals(value, f"{path}.{name}")


def _changed_signals(signals: Mapping[str, Any], texts: frozenset[str]) -> Iterator[str]:
    """Yield the paths of signals that redaction changes; for a changed name, that of its group."""
    for path, name, value in _walk_signals(signals, "signals"):
        if scrub_texts(name, texts) != name:
            yield scrub_texts(path.removesuffix(f".{name}"), texts)
        elif not isinstance(value, Mapping) and scrub_texts(value, texts) != value:
            yield scrub_texts(path, texts)


def require_record(
    store: Store | None, decision_id: str, tenant: str | None, *, where: str = "decision_id"
) -> tuple[Store, DecisionRecord]:
    """Return the store and the decision of that id in it; `where` names the argument in errors.

    Raises:
        InputError: There is no such decision, or it is another tenant's.
        StorageError: The store is unreadable, or somebody changed it.
    """
    if store is None:
        raise InputError("this gate has no store, so it has no earlier decisions", where=where)
    record = store.get(decision_id)
    # Do not reveal that another tenant's decision exists.
    if record is None or (tenant is not None and record.tenant != tenant):
        raise InputError(f"there is no decision `{decision_id}`", where=where)
    if not record.seal_holds:
        raise StorageError("the sealed part is not what was decided on", where=decision_id)
    return store, record


def attach_history(
    store: Store | None, prepared: PreparedRequest, max_attempts: int
) -> PreparedRequest:
    """Return the request with its position among its attempts, and the grants of earlier ones.

    Attempts are counted over the whole family, so that continuing the first decision
    again and again gains nothing.

    Raises:
        InputError: There is no such decision, or another requester made that request.
    """
    if prepared.request.continues is None:
        first = RequestAttempt(attempts_left=max_attempts > 1)
        return prepared if first == prepared.attempt else replace(prepared, attempt=first)
    continued = prepared.request.continues
    known_store, before = require_record(store, continued, prepared.tenant, where="continues")
    personal = before.personal
    if personal is None:
        raise InputError("the decision was erased and cannot be continued", where="continues")
    if personal.requester != prepared.request.requester:
        raise InputError("only the first requester can continue a decision", where="continues")
    root_id = before.root_id or before.decision_id
    family = known_store.list_family(prepared.tenant, root_id)
    number = 1 + sum(record.basis != "resolution" for record in family)
    personals = [record.personal for record in family]
    grants = [grant for one in personals if one is not None for grant in one.grants]
    earlier = {grant.grant_id: grant for grant in grants}
    for grant in prepared.inputs.grants:
        earlier.pop(grant.grant_id, None)
    restored = _restore_signatures(known_store, prepared.tenant, earlier.values())
    attempt = RequestAttempt(root_id, number, number < max_attempts, restored)
    return replace(prepared, attempt=attempt)


def _restore_signatures(
    store: Store, tenant: str, grants: Iterable[RecordedGrant]
) -> tuple[Grant, ...]:
    """Return recorded grants with their signatures, which only the table of grants holds.

    A grant that was erased or retired since stays without one, and does not count.
    """
    listed = list(grants)
    digests = [grant.digest for grant in listed if grant.digest is not msgspec.UNSET]
    signed = store.find_grants(tenant, digests) if digests else {}
    return tuple(signed.get(str(grant.digest), grant) for grant in listed)

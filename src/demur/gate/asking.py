"""Everything that comes with a request, checked and prepared for the engine."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from demur.canonical import (
    Canonical,
    canonical_bytes,
    canonicalise,
    digest,
    digest_of_bytes,
    fast_encode,
    readable,
)
from demur.classification.classify import named
from demur.codes.registry import Registry
from demur.errors import InputError, InputTypeError
from demur.gate.redaction import Profile, Redacted, redact, scrub
from demur.memory.recall import SIGNALS
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.request import LONGEST_NAME, Request, read_request
from demur.policy.policy import Policy

__all__ = [
    "DEFAULT_TENANT",
    "Asked",
    "Beside",
    "Continued",
    "Given",
    "check_pin",
    "gather",
    "inputs_digest",
    "scope_of",
]

DEFAULT_TENANT = "default"

_Part = TypeVar("_Part", Finding, Grant)

# Keys that identify or link a request and are not part of its substance.
_NAMING = frozenset({"continues", "policy", "request_id", "schema_version", "tenant", "trace"})
_TARGET_KEYS = ("system", "resource_type", "resource_id")


class Beside(msgspec.Struct, frozen=True):
    """The checked inputs beside the request. A request cannot set any of them."""

    findings: tuple[Finding, ...] = ()
    grants: tuple[Grant, ...] = ()
    accepted: tuple[str, ...] = ()
    signals: Mapping[str, Any] = {}

    @property
    def empty(self) -> bool:
        """Whether there are no inputs."""
        return not (self.findings or self.grants or self.accepted or self.signals)


class Continued(msgspec.Struct, frozen=True):
    """The place of a request in its chain of attempts."""

    root_id: str | None = None
    attempt: int = 1
    attempts_left: bool = True
    grants: tuple[Grant, ...] = ()


class Asked(msgspec.Struct, frozen=True):
    """A request that was checked and redacted, ready for the engine."""

    request: Request
    tenant: str
    beside: Beside
    redacted: Redacted
    continued: Continued
    now: datetime
    scope: Mapping[str, str] | None = None

    @property
    def grants(self) -> tuple[Grant, ...]:
        """The grants of this request, and those of earlier attempts."""
        return (*self.beside.grants, *self.continued.grants)

    def fingerprint(self, salt: str) -> str:
        """Return a salted digest of the request and its inputs, before redaction."""
        seen = salt.encode() + self.request.raw
        if not self.beside.empty:
            seen += b"\n" + canonical_bytes(_identity(self.beside))
        return f"sha256:{sha256(seen).hexdigest()}"

    def inputs_digest(self) -> str:
        """Return the digest of the request and inputs as recorded."""
        beside = self.recorded
        if beside.empty and not self.redacted.removed:
            # Reuse the bytes of the request; the rest is constant without inputs.
            return digest_of_bytes(_ALONE[0] + self.request.raw + _ALONE[1])
        return inputs_digest(self.redacted.request, beside)

    @property
    def recorded(self) -> Beside:
        """The inputs beside the request, redacted for storage."""
        texts, details = self.redacted.texts, self.redacted.details
        beside = self.beside
        if self.continued.grants:
            beside = replace(beside, grants=self.grants)
        if not texts and details:
            return beside
        return replace(
            beside,
            findings=tuple(_scrubbed(finding, texts, details) for finding in beside.findings),
            signals=scrub(beside.signals, texts),
        )


_ALONE = (b'{"accepted":[],"findings":[],"grants":[],"request":', b',"signals":{}}')


def inputs_digest(request: Mapping[str, Any], beside: Beside) -> str:
    """Return the digest of a recorded request and its inputs."""
    return digest(
        {
            "request": request,
            "findings": msgspec.to_builtins(beside.findings),
            "grants": msgspec.to_builtins(beside.grants),
            "accepted": list(beside.accepted),
            "signals": dict(beside.signals),
        }
    )


_FIRST = Continued()
_NOTHING_BESIDE = Beside()


class Given(msgspec.Struct, frozen=True):
    """The inputs that a caller passes beside the request, unchecked."""

    findings: Iterable[Finding] = ()
    grants: Iterable[Grant] = ()
    accepted: Iterable[str] = ()
    signals: Mapping[str, Any] | None = None
    tenant: str | None = None

    @property
    def alone(self) -> bool:
        """Whether there is nothing but the request."""
        return (
            self.findings == () and self.grants == () and self.accepted == () and not self.signals
        )


def gather(
    request: Mapping[str, Any], given: Given, *, registry: Registry, profile: Profile, now: datetime
) -> Asked:
    """Return the request and its inputs, checked and redacted.

    Raises:
        InputError: A part cannot be used; `where` is its path.
        InputTypeError: A part has the wrong type.
    """
    asked = read_request(request)
    redacted = redact(asked.facts, profile)
    beside = _beside(given, registry)
    return Asked(asked, _tenant(asked, given.tenant), beside, redacted, _FIRST, now)


def _beside(given: Given, registry: Registry) -> Beside:
    if given.alone:
        return _NOTHING_BESIDE
    return Beside(
        _findings(given.findings, registry),
        _typed("grants", given.grants, Grant),
        _accepted(given.accepted),
        {} if given.signals is None else _signals(given.signals),
    )


def check_pin(asked: Asked, policy: Policy) -> None:
    """Refuse a request that pins another policy."""
    pin = asked.request.pin
    if pin is None:
        return
    for field in ("policy_id", "policy_version"):
        wanted, actual = getattr(pin, field), getattr(policy, field)
        if wanted is not None and wanted != actual:
            problem = f"this gate uses `{actual}`, not `{wanted}`"
            raise InputError(problem, where=f"policy.{field}")


def scope_of(asked: Asked) -> Mapping[str, str]:
    """Return the scope that a grant must cover: action, tenant, target and request digest."""
    if asked.scope is not None:
        return asked.scope
    facts = asked.request.facts
    # A grant is checked again later, so its scope holds only what may be stored.
    target = asked.redacted.request["action"].get("target") or {}
    substance = {
        key: part for key, part in facts.items() if part is not None and key not in _NAMING
    }
    raw = fast_encode(substance) if asked.request.usual else canonical_bytes(substance)
    named_targets = {
        key: target[key] for key in _TARGET_KEYS if isinstance(target.get(key), str) and target[key]
    }
    return {
        **named_targets,
        "action": asked.request.action.type,
        "tenant": asked.tenant,
        "request": digest_of_bytes(raw),
    }


def _tenant(asked: Request, given: str | None) -> str:
    claimed = asked.tenant
    if given is None:
        return claimed or DEFAULT_TENANT
    if not isinstance(given, str):
        raise InputTypeError.expected("tenant", "a name", given)
    if not 0 < len(given) <= LONGEST_NAME:
        raise InputError(f"a tenant has 1 to {LONGEST_NAME} characters", where="tenant")
    if not given.isprintable():
        raise InputError("a tenant holds a character that cannot be shown", where="tenant")
    given = _usable("tenant", given).value
    # INVARIANT: the operator's tenant overrides the caller's.
    if claimed is not None and claimed != given:
        raise InputError(f"the request is for `{claimed}`, not for `{given}`", where="tenant.id")
    return given


def _typed(what: str, items: Iterable[_Part], kind: type[_Part]) -> tuple[_Part, ...]:
    try:
        listed = tuple(items)
    except TypeError:
        raise InputTypeError.expected(what, f"a list of {kind.__name__}", items) from None
    return tuple(_checked(f"{what}.{index}", item, kind) for index, item in enumerate(listed))


def _checked(where: str, item: _Part, kind: type[_Part]) -> _Part:
    """Return a copy of the item that can be stored and read back."""
    if not isinstance(item, kind):
        raise InputTypeError.expected(where, f"a {kind.__name__}", item)
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    if isinstance(item, Finding):
        fields["evidence"] = _usable(f"{where}.evidence", item.evidence).value
    try:
        plain = msgspec.to_builtins(fields, builtin_types=(bytes, bytearray, memoryview))
        return msgspec.convert(_usable(where, plain).value, kind)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        problem, _, at = str(error).partition(" - at ")
        place = at.strip("`").removeprefix("$")
        raise InputError(problem[:1].lower() + problem[1:], where=f"{where}{place}") from error


def _usable(where: str, value: object) -> Canonical:
    """Return the value in plain types; paths in errors start with `where`."""
    try:
        return readable(canonicalise(value))
    except InputError as error:
        place = where if error.where is None else f"{where}.{error.where}"
        raise InputError(error.problem, where=place, help=error.help) from None


def _findings(findings: Iterable[Finding], registry: Registry) -> tuple[Finding, ...]:
    listed = _typed("findings", findings, Finding)
    for finding in listed:
        registry[finding.code]
    return listed


def _accepted(accepted: Iterable[str]) -> tuple[str, ...]:
    names = named("accepted", accepted)
    return tuple(_usable("accepted", names).value) if names else ()


def _signals(signals: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(signals, Mapping):
        raise InputTypeError.expected("signals", "a mapping", signals)
    plain: dict[str, Any] = _usable("signals", signals).value
    taken = next((name for name in SIGNALS if name in plain), None)
    if taken is not None:
        help_text = "memory sets these signals: use another name"
        raise InputError("this name belongs to memory", where=f"signals.{taken}", help=help_text)
    return plain


def _identity(beside: Beside) -> dict[str, Any]:
    """Return the part of the inputs that distinguishes two requests; wording does not."""
    return {
        "findings": sorted([f.code, str(f.surface), str(f.action)] for f in beside.findings),
        "grants": sorted(grant.grant_id for grant in beside.grants),
        "accepted": sorted(beside.accepted),
        "signals": dict(beside.signals),
    }


def _scrubbed(finding: Finding, texts: frozenset[str], details: bool) -> Finding:  # noqa: FBT001 - from one place
    if not details:
        return msgspec.structs.replace(finding, detail="", evidence={})
    return msgspec.structs.replace(
        finding, detail=scrub(finding.detail, texts), evidence=scrub(finding.evidence, texts)
    )

"""Grants and keys: sign a grant, check it, and lift what it may lift.

A key belongs to one holder and may be limited to some kinds of grant, so a signature proves who
granted. HMAC needs the standard library only; Ed25519, where a verifier cannot sign, needs
`demur[ed25519]`. Grants lift workflow blocks, accepted constraints lift soft blocks; nothing lifts
a hard block, nor a code that says nobody could judge.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

import msgspec

from demur.classification import Classification, make_decision, unique_names
from demur.codes.entry import Entry
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import GrantKind, RefusalClass, Verdict
from demur.errors import GrantError, InputError, InputTypeError, MissingExtraError, error_reason
from demur.model.decision import Decision, IgnoredGrant
from demur.model.grant import Algorithm, Grant
from demur.model.record import DecisionRecord

__all__ = [
    "KEY_BYTES",
    "Classification",
    "Decision",
    "Grant",
    "GrantKind",
    "GrantRejection",
    "KeyRing",
    "SigningKey",
    "TrustedKey",
    "check_grant",
    "make_decision",
    "read_signing_key",
    "resolve",
    "sign_approval",
    "sign_grant",
]

KEY_BYTES = 32


class _HmacScheme:
    """HMAC-SHA-256: the trusted side holds the same secret as the signing side."""

    @staticmethod
    def public_key(secret: bytes) -> bytes:
        return secret

    @staticmethod
    def sign(secret: bytes, message: bytes) -> bytes:
        return hmac.digest(secret, message, hashlib.sha256)

    @staticmethod
    def verify(public: bytes, message: bytes, signature: bytes) -> bool:
        return hmac.compare_digest(hmac.digest(public, message, hashlib.sha256), signature)


class _Ed25519Scheme:
    """Ed25519, where a verifier cannot sign. It needs `cryptography`, which is loaded on use."""

    def __init__(self) -> None:
        try:
            self._module: Any = import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
            self._invalid: Any = import_module("cryptography.exceptions").InvalidSignature
        except ImportError as error:
            raise MissingExtraError(
                "Ed25519 keys need the `cryptography` package",
                help="pip install 'demur[ed25519]', or use an `hmac-sha256` key",
            ) from error

    def public_key(self, secret: bytes) -> bytes:
        private = self._module.Ed25519PrivateKey.from_private_bytes(secret)
        return bytes(private.public_key().public_bytes_raw())

    def sign(self, secret: bytes, message: bytes) -> bytes:
        return bytes(self._module.Ed25519PrivateKey.from_private_bytes(secret).sign(message))

    def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
        try:
            self._module.Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
        except self._invalid:
            return False
        return True


def _load_scheme(algorithm: Algorithm) -> _HmacScheme | _Ed25519Scheme:
    return _HmacScheme() if algorithm == "hmac-sha256" else _Ed25519Scheme()


class TrustedKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that checks a holder's signatures. For HMAC, `material` is a secret."""

    key_id: str
    holder: str
    algorithm: Algorithm
    material: str
    kinds: tuple[GrantKind, ...] = ()

    def __post_init__(self) -> None:
        _check_identity(self.key_id, self.holder, self.algorithm)
        _decode_material(self.material)

    def __repr__(self) -> str:
        return f"<TrustedKey {self.key_id} of {self.holder}>"

    def may_grant(self, kind: GrantKind) -> bool:
        """Return whether this key may sign grants of that kind (no kinds: all of them)."""
        return not self.kinds or kind in self.kinds

    def verify_signature(self, message: bytes, signature: str) -> bool:
        """Return whether `signature` was made over `message` with this key."""
        try:
            raw = _decode_base64(signature)
        except (binascii.Error, ValueError):
            return False
        return _load_scheme(self.algorithm).verify(_decode_material(self.material), message, raw)


class SigningKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that makes signatures. Keep it where only its holder can read it."""

    key_id: str
    holder: str
    algorithm: Algorithm
    secret: str
    kinds: tuple[GrantKind, ...] = ()

    def __post_init__(self) -> None:
        _check_identity(self.key_id, self.holder, self.algorithm)
        _decode_material(self.secret)

    def __repr__(self) -> str:
        return f"<SigningKey {self.key_id} of {self.holder}>"

    @classmethod
    def from_randomness(
        cls,
        randomness: bytes,
        *,
        key_id: str,
        holder: str,
        algorithm: Algorithm = "hmac-sha256",
        kinds: Iterable[GrantKind] = (),
    ) -> Self:
        """Return a new key out of 32 random bytes.

        Raises:
            GrantError: There are not exactly 32 bytes.
        """
        if not isinstance(randomness, bytes):
            raise InputTypeError.wrong_type("the randomness of a key", "bytes", randomness)
        return cls(
            key_id=key_id,
            holder=holder,
            algorithm=algorithm,
            secret=_encode_base64(randomness),
            kinds=tuple(kinds),
        )

    def sign(self, message: bytes) -> str:
        """Return the signature over `message`."""
        scheme, secret = _load_scheme(self.algorithm), _decode_material(self.secret)
        return _encode_base64(scheme.sign(secret, message))

    def trusted_key(self) -> TrustedKey:
        """Return the key for verifiers."""
        scheme, secret = _load_scheme(self.algorithm), _decode_material(self.secret)
        return TrustedKey(
            key_id=self.key_id,
            holder=self.holder,
            algorithm=self.algorithm,
            material=_encode_base64(scheme.public_key(secret)),
            kinds=self.kinds,
        )


class KeyRing(Mapping[str, TrustedKey]):
    """The trusted keys, by id. No other key is trusted."""

    def __init__(self, keys: Iterable[TrustedKey] = ()) -> None:
        self._keys: dict[str, TrustedKey] = {}
        for key in keys:
            if self._keys.setdefault(key.key_id, key) != key:
                raise GrantError(f"two different keys have the id `{key.key_id}`")

    def __getitem__(self, key_id: str) -> TrustedKey:
        return self._keys[key_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _check_identity(key_id: str, holder: str, algorithm: str) -> None:
    if not key_id or not holder:
        raise GrantError("a key needs an id and a holder")
    if algorithm not in get_args(Algorithm):
        known = ", ".join(get_args(Algorithm))
        raise GrantError(f"unknown algorithm `{algorithm}`", help=f"one of {known}")


def _encode_base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii")


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)


def _decode_material(text: str) -> bytes:
    try:
        raw = _decode_base64(text)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES:
        raise GrantError(f"a key is {KEY_BYTES} bytes in base64url", help="`demur grant keygen`")
    return raw


class GrantRejection(StrEnum):
    """Why a grant does not count."""

    UNKNOWN_KEY = "unknown_key"
    WRONG_ALGORITHM = "wrong_algorithm"
    BAD_SIGNATURE = "bad_signature"
    WRONG_HOLDER = "wrong_holder"
    KIND_NOT_PERMITTED = "kind_not_permitted"
    GRANTED_TO_SELF = "granted_to_self"
    REVOKED = "revoked"
    NOT_YET_VALID = "not_yet_valid"
    EXPIRED = "expired"
    NOT_JUDGED = "not_judged"
    OTHER_REQUESTER = "other_requester"
    OUT_OF_SCOPE = "out_of_scope"
    LIFTS_NOTHING = "lifts_nothing"


def sign_grant(
    key: SigningKey,
    *,
    grant_id: str,
    kind: GrantKind | str,
    granted_to: str,
    scope: Mapping[str, str],
    not_before: datetime,
    expires_at: datetime,
    codes: Iterable[str] = (),
) -> Grant:
    """Return a grant from the key's holder, signed.

    Raises:
        GrantError: The grant is malformed, or the key may not give this kind.
    """
    try:
        checked = GrantKind(kind)
    except ValueError:
        known = ", ".join(GrantKind)
        raise GrantError(f"unknown kind of grant `{kind}`", help=f"one of {known}") from None
    if not key.trusted_key().may_grant(checked):
        problem = f"the key `{key.key_id}` may not grant `{checked}`"
        raise GrantError(problem, help=f"it may grant {', '.join(key.kinds)}")
    grant = Grant(
        grant_id=grant_id,
        kind=checked,
        granted_by=key.holder,
        granted_to=granted_to,
        scope=dict(scope),
        not_before=not_before,
        expires_at=expires_at,
        key_id=key.key_id,
        algorithm=key.algorithm,
        codes=unique_names("codes", codes),
    )
    if grant.granted_by == grant.granted_to:
        raise GrantError("a key holder cannot grant to themselves", help="ask another key holder")
    return msgspec.structs.replace(grant, signature=key.sign(grant.signed_bytes()))


# An approval covers the request that was refused, not similar ones.
_APPROVAL_SCOPE = ("action", "tenant", "request")


def sign_approval(
    record: DecisionRecord,
    key: SigningKey,
    *,
    grant_id: str,
    kind: GrantKind | str,
    not_before: datetime,
    expires_at: datetime,
    registry: Registry | None = None,
) -> Grant:
    """Return a signed grant that lifts the codes of one refused decision.

    Raises:
        InputError: Nobody can approve the decision, or a grant of this kind lifts none of its
            codes.
        GrantError: The key may not give this kind.
    """
    personal = record.personal
    if personal is None:
        raise InputError(f"decision `{record.decision_id}` was erased, so it cannot be approved")
    if record.verdict is Verdict.ALLOW:
        raise InputError(f"decision `{record.decision_id}` is ALLOW, so it needs no approval")
    if record.verdict is Verdict.ABSTAIN:
        problem = "demur could not judge this request, so nobody can approve it"
        raise InputError(problem, help=record.what_can_be_done_now)
    if personal.requester is None:
        raise InputError(
            "the request names no subject to grant anything to",
            help="add `subject` to the request: {type: agent, id: billing}",
        )
    return sign_grant(
        key,
        grant_id=grant_id,
        kind=kind,
        granted_to=personal.requester,
        scope={name: personal.scope[name] for name in _APPROVAL_SCOPE},
        not_before=not_before,
        expires_at=expires_at,
        codes=_find_liftable_codes(record, kind, registry or default_registry()),
    )


def _find_liftable_codes(record: DecisionRecord, kind: str, registry: Registry) -> list[str]:
    """Return the codes of a decision that a grant of this kind lifts; raise if it lifts none."""
    entries = [registry[code] for code in record.reason_codes]
    codes = [entry.code for entry in entries if kind in entry.grants]
    if codes:
        return codes
    kinds = sorted({str(other) for entry in entries for other in entry.grants})
    names = ", ".join(record.reason_codes)
    raise InputError(
        f"a grant of {kind} does not lift {names} ({record.refusal_class})",
        help=f"a grant of {' or '.join(kinds)} lifts it" if kinds else "no grant lifts it",
    )


def check_grant(
    grant: Grant, keys: KeyRing, *, now: datetime, revoked: Collection[str] = ()
) -> GrantRejection | None:
    """Return why the grant is invalid at `now`, or None if it is valid.

    `resolve` checks whether it covers the requester and scope of a decision.
    """
    if not isinstance(now, datetime):
        raise InputTypeError.wrong_type("`now`", "a datetime", now)
    if now.tzinfo is None:
        raise InputError("`now` needs a time zone", help="like datetime.now(UTC)")
    key = keys.get(grant.key_id)
    if key is None:
        return GrantRejection.UNKNOWN_KEY
    if key.algorithm != grant.algorithm:
        return GrantRejection.WRONG_ALGORITHM
    try:
        genuine = key.verify_signature(grant.signed_bytes(), grant.signature)
    except InputError:
        # A grant without canonical bytes was never signed.
        genuine = False
    if not genuine:
        return GrantRejection.BAD_SIGNATURE
    # The signature is genuine: from here on, the content is the key holder's.
    checks = (
        (key.holder != grant.granted_by, GrantRejection.WRONG_HOLDER),
        (not key.may_grant(grant.kind), GrantRejection.KIND_NOT_PERMITTED),
        (grant.granted_by == grant.granted_to, GrantRejection.GRANTED_TO_SELF),
        (grant.grant_id in revoked, GrantRejection.REVOKED),
        (now < grant.not_before, GrantRejection.NOT_YET_VALID),
        (now >= grant.expires_at, GrantRejection.EXPIRED),
    )
    return next((why for failed, why in checks if failed), None)


def resolve(
    decision: Decision,
    grants: Iterable[Grant] = (),
    accepted: Iterable[str] = (),
    *,
    keys: KeyRing | None = None,
    now: datetime | None = None,
    revoked: Collection[str] = (),
    recorded_rejections: Mapping[str, str | None] | None = None,
    registry: Registry | None = None,
) -> Decision:
    """Return the decision after applying `grants` and `accepted` constraints.

    The verdict becomes ALLOW when every refusing code was lifted; otherwise it stays. An
    ABSTAIN always stays: the check must be made first. Ignored grants are recorded with the
    reason. Soft codes whose constraints were accepted stay in force as the reason for those
    constraints.

    `recorded_rejections` replaces the check of grants in a replay without keys: by grant id, why
    it did not count, or None if it did. Grants that it does not name do not count.

    Raises:
        InputError: There are grants but `now` is missing.
    """
    if not isinstance(decision, Decision):
        raise InputTypeError.wrong_type("a decision", "a Decision", decision)
    known = default_registry() if registry is None else registry
    entries = [known[code] for code in decision.reason_codes]
    withdrawn = frozenset(unique_names("revoked", revoked))
    believed: list[Grant] = []
    ignored = list(decision.ignored_grants)
    for grant in sorted(_check_grants(grants), key=attrgetter("grant_id", "signature")):
        if recorded_rejections is not None:
            why = recorded_rejections.get(grant.grant_id, GrantRejection.UNKNOWN_KEY)
        elif now is None:
            raise InputError("grants expire: pass the time as `now`")
        else:
            why = check_grant(grant, keys or KeyRing(), now=now, revoked=withdrawn)
        why = why or _reach_problem(grant, decision, entries)
        if why is None:
            believed.append(grant)
        else:
            ignored.append(IgnoredGrant(grant_id=grant.grant_id, why=why))
    counted = {grant.grant_id for grant in believed}
    lifted = [entry.code for entry in entries if any(_lifts_code(g, entry) for g in believed)]
    agreed = unique_names("accepted", (*decision.accepted, *unique_names("accepted", accepted)))
    bound: tuple[str, ...] = ()
    # INVARIANT: ABSTAIN never executes: a check that failed is repeated, not lifted.
    is_judged = decision.verdict is not Verdict.ABSTAIN
    if is_judged and decision.constraints and set(decision.constraints) <= set(agreed):
        # The accepted constraints bind all soft codes, or none.
        bound = tuple(e.code for e in entries if e.refusal_class is RefusalClass.SOFT_BLOCK)
    still = [entry for entry in entries if entry.code not in lifted]
    # INVARIANT: no grant or acceptance changes a HARD_BLOCK.
    blocking = [e for e in still if e.refusal_class is not None and e.code not in bound]
    waiting = any(e.refusal_class is RefusalClass.WORKFLOW_BLOCK for e in blocking)
    return make_decision(
        decision.verdict if blocking else Verdict.ALLOW,
        [entry.code for entry in still],
        constraints=decision.constraints,
        missing=decision.missing if waiting else (),
        attempts_left=decision.attempts_left,
        requester=decision.requester,
        scope=decision.scope,
        accepted=agreed,
        resolved_codes=(*decision.resolved_codes, *lifted, *bound),
        lifted_by=(*decision.lifted_by, *(grant.grant_id for grant in believed)),
        ignored_grants=dict.fromkeys(one for one in ignored if one.grant_id not in counted),
        obligations=decision.obligations,
        fallback_codes=decision.fallback_codes,
        unusable=decision.unusable,
        registry=known,
    )


def _check_grants(grants: Iterable[Grant]) -> list[Grant]:
    try:
        listed = list(grants)
    except TypeError:
        raise InputTypeError.wrong_type("grants", "a list of Grants", grants) from None
    for grant in listed:
        if not isinstance(grant, Grant):
            raise InputTypeError.wrong_type("grants", "a list of Grants", grant)
    return listed


def _reach_problem(
    grant: Grant, decision: Decision, entries: Sequence[Entry]
) -> GrantRejection | None:
    """Return why a genuine grant does not apply to this decision, or None if it does."""
    if decision.verdict is Verdict.ABSTAIN:
        return GrantRejection.NOT_JUDGED
    if grant.granted_to != decision.requester:
        return GrantRejection.OTHER_REQUESTER
    if not grant.covers_scope(decision.scope):
        return GrantRejection.OUT_OF_SCOPE
    if not any(_lifts_code(grant, entry) for entry in entries):
        return GrantRejection.LIFTS_NOTHING
    return None


def _lifts_code(grant: Grant, entry: Entry) -> bool:
    # Registries ensure that only a decided workflow code names grants.
    return grant.kind in entry.grants and (not grant.codes or entry.code in grant.codes)


# -- files -----------------------------------------------------------------------------------


_Key = TypeVar("_Key", SigningKey, TrustedKey)


def read_signing_key(path: Path) -> SigningKey:
    """Return the signing key in a file, as `demur grant keygen` wrote it."""
    return _decode_key(path, SigningKey)


def read_key_ring(paths: Iterable[Path]) -> KeyRing:
    """Return the trusted keys in the files, one key per file."""
    return KeyRing(_decode_key(path, TrustedKey) for path in paths)


def _decode_key(path: Path, kind: type[_Key]) -> _Key:
    try:
        return msgspec.json.decode(read_grant_file(path), type=kind)
    except msgspec.MsgspecError as error:
        raise GrantError(f"not a {kind.__name__}: {error}", where=str(path)) from error


def read_revocations(path: Path | None) -> frozenset[str]:
    """Return the revoked grant ids: a JSON list of strings. A named file must exist."""
    if path is None:
        return frozenset()
    raw = read_grant_file(path)
    try:
        return frozenset(msgspec.json.decode(raw, type=list[str]))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise GrantError("not a JSON list of grant ids", where=str(path)) from error


def read_grant_file(path: Path) -> bytes:
    """Return the content of a file of keys, grants or revocations."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise GrantError(f"cannot read: {error_reason(error)}", where=str(path)) from error

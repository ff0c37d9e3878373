"""A decision record: everything that was decided, and why; frozen, durable, replayable.

A record has two parts. The open part holds the decision and enters the hash chain as it is. The
sealed part holds what came from the caller and may be personal; only its salted digest enters the
chain, so it can be erased later without breaking the chain.
"""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Literal, NoReturn, cast

import msgspec
from msgspec.structs import force_setattr

from demur.canonical import (
    canonical_bytes,
    digest_of_bytes,
    fast_encode,
    is_fast_canonical_number,
)
from demur.codes.loading import registry_or_core
from demur.codes.vocabulary import (
    Advice,
    DecisionOutput,
    Obligation,
    RefusalClass,
    Surface,
    Verdict,
)
from demur.errors import InputError
from demur.model.decision import Decision, IgnoredGrant, Outcome, leading_entry
from demur.model.finding import Finding, Span
from demur.model.grant import RecordedGrant


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change. Encoders write it like any dict."""

    def _refuse_change(self, *_: object, **__: object) -> NoReturn:
        message = "a record is immutable; `dict(...)` gives a copy that can be changed"
        raise TypeError(message)

    __setitem__ = __delitem__ = __ior__ = _refuse_change
    clear = pop = popitem = setdefault = update = _refuse_change

    def __hash__(self) -> int:  # type: ignore[override] # a dict has none, because it can change
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))


def freeze_json(value: Any) -> Any:
    """Return plain JSON as immutable values: read-only dicts, and tuples."""
    if isinstance(value, Mapping):
        return FrozenDict({key: freeze_json(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze_json(item) for item in value)
    return value


SCHEMA_VERSION = "decision_record.v1"


class PolicyRef(msgspec.Struct, frozen=True, kw_only=True):
    """The policy that decided, and its mode."""

    policy_id: str
    policy_version: str
    digest: str
    mode: str


class MatchedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that matched."""

    rule_id: str
    stage: str


class InvalidField(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact that a rule compares and that is invalid, and why.

    `part` is the field to supply where it is not the fact itself, such as the currency of an
    amount. Records of engine 0.1.0 do not say why.
    """

    rule_id: str
    path: str
    why: str = ""
    part: str = ""

    @property
    def field(self) -> str:
        """The field to supply or to correct."""
        return self.part or self.path

    def __str__(self) -> str:
        return f"{self.path} cannot be used{f': {self.why}' if self.why else ''}"


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """The requested amount; `value` is None if it is no number."""

    value: int | float | None
    currency: str | None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The decision in words: one sentence, and its reasons."""

    summary: str
    details: str


class ModelRef(msgspec.Struct, frozen=True, kw_only=True):
    """A model that scored something, and the digest of the model or of what it was asked."""

    model: str
    digest: str


class Determinism(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The versions and digests that determine a decision.

    `models` are the models whose scores are among the signals, by the name of the scorer.
    """

    engine_version: str
    registry_version: str
    registry_digest: str
    policy_digest: str
    memory_digest: str | None = None
    memory_settings: Mapping[str, Any] | None = None
    models: Mapping[str, ModelRef] | None = None

    def __post_init__(self) -> None:
        if self.models is not None:
            force_setattr(self, "models", FrozenDict(self.models))
        if self.memory_settings is not None:
            force_setattr(self, "memory_settings", freeze_json(self.memory_settings))


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """The profile and the paths of redaction."""

    profile: str
    removed: tuple[str, ...] = ()


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """An experience that resembles the request."""

    memory_id: str
    label: str
    score: float
    summary: str


class Similarity(msgspec.Struct, frozen=True, kw_only=True):
    """The similarity of the request to experiences of one outcome."""

    score: float
    top_k: tuple[Neighbour, ...] = ()


Speaker = Literal["user", "assistant", "tool", "document"]


class Excerpt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was said at a check, and by whom; recorded only if the operator turned it on.

    `source` names the tool or the document. `prompt` is the beginning of what an answer answers.
    `span` is the place of a finding in `text`, unless redaction changed the text. `is_cut` says
    that the text was longer.
    """

    text: str
    speaker: Speaker
    surface: Surface
    source: str = ""
    prompt: str = ""
    span: Span | None = None
    is_cut: bool = False


class Personal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sealed part: the redacted inputs. `salt` keeps its digest from being guessed.

    `fingerprint` covers the inputs before redaction with the same salt: it distinguishes a
    repeated request from a changed one.
    """

    salt: str
    fingerprint: str
    inputs_digest: str
    request: Mapping[str, Any]
    requester: str | None = None
    scope: Mapping[str, str] = {}
    facts: Mapping[str, Any] = {}
    findings: tuple[Finding, ...] = ()
    grants: tuple[RecordedGrant, ...] = ()
    risk_signals: Mapping[str, Any] = {}
    excerpt: Excerpt | None = None


class ChainLink(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a record in its tenant's chain."""

    seq: int
    previous: str
    hash: str


# Parts of the sealed half that can be read like fields of the record.
_SEALED = (
    "request",
    "requester",
    "scope",
    "facts",
    "findings",
    "grants",
    "risk_signals",
    "excerpt",
)
_personal = msgspec.json.Decoder(Personal).decode


class DecisionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision. Fields read as attributes and, as plain JSON, like those of a mapping.

    `reason_codes` are in force and `resolved_codes` were lifted, as in a `Decision`.
    `enforced` is false in advisory mode: the verdict is the true one and does not bind.
    `basis` says what decided: policy on a request, grants on an earlier decision, or demur itself
    because of a runtime error or a conflict. `recorded_lead` is the `leading_code` as it was
    written; records of engine 0.1.0 have none.
    """

    decision_id: str
    created_at: str
    tenant: str
    action_type: str
    policy: PolicyRef
    verdict: Verdict
    decision_output: DecisionOutput
    reason_codes: tuple[str, ...]
    explanation: Explanation
    determinism: Determinism
    sealed_digest: str
    schema_version: Literal["decision_record.v1"] = "decision_record.v1"
    basis: Literal["request", "resolution", "runtime"] = "request"
    enforced: bool = True
    refusal_class: RefusalClass | None = None
    request_id: str | None = None
    continues: str | None = None
    root_id: str | None = None
    attempt: int = 1
    attempts_left: bool = True
    amount: Amount | None = None
    matched_rules: tuple[MatchedRule, ...] = ()
    shadow_rules: tuple[str, ...] = ()
    shadowed_codes: tuple[str, ...] = ()
    invalid: tuple[InvalidField, ...] = ()
    constraints: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    resolved_codes: tuple[str, ...] = ()
    lifted_by: tuple[str, ...] = ()
    ignored_grants: tuple[IgnoredGrant, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    reason: str | None = None
    what_can_be_done_now: str | None = None
    how_to_proceed: str | None = None
    next_step: Advice | None = None
    recorded_lead: str | None = msgspec.field(default=None, name="leading_code")
    fallback_codes: tuple[str, ...] = ()
    approvals: int = 1
    context_ref: Mapping[str, Any] | None = None
    redaction: Redaction | None = None
    sealed: bytes | None = None
    chain: ChainLink | None = None

    def __post_init__(self) -> None:
        if self.context_ref is not None:
            force_setattr(self, "context_ref", freeze_json(self.context_ref))

    # -- the two halves ------------------------------------------------------------------

    def open_bytes(self) -> bytes:
        """Return the canonical bytes of the open part: what the chain covers."""
        bare = self
        if self.sealed is not None or self.chain is not None:
            bare = msgspec.structs.replace(self, sealed=None, chain=None)
        is_fast = (
            self.context_ref is None
            and self.determinism.memory_settings is None
            and (self.amount is None or is_fast_canonical_number(self.amount.value))
        )
        # The fast encoder writes all other fields canonically.
        return fast_encode(bare) if is_fast else canonical_bytes(msgspec.to_builtins(bare))

    @property
    def personal(self) -> Personal | None:
        """A copy of the sealed part, read anew each time; None once it was erased.

        Raises:
            InputError: It cannot be read: it was not written by demur.
        """
        if self.sealed is None:
            return None
        try:
            return _personal(self.sealed)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problem = "the sealed part of the record cannot be read"
            raise InputError(problem, where=self.decision_id) from error

    @property
    def seal_holds(self) -> bool:
        """Whether the sealed part matches its digest; true once it was erased."""
        return self.sealed is None or digest_of_bytes(self.sealed) == self.sealed_digest

    # -- as a mapping ----------------------------------------------------------------------

    def __getitem__(self, key: str) -> Any:
        if key in _SEALED:
            personal = self.personal
            value = None if personal is None else getattr(personal, key)
            if key == "grants" and value:
                # Records of earlier versions hold signatures.
                value = tuple(map(RecordedGrant.from_grant, value))
        elif key in _OPEN:
            value = getattr(self, key)
        else:
            raise KeyError(key)
        # Round trip through JSON for a copy in plain types.
        return msgspec.json.decode(msgspec.json.encode(value))

    def __iter__(self) -> Iterator[str]:
        return iter((*_OPEN, *_SEALED))

    def __len__(self) -> int:
        return len(_OPEN) + len(_SEALED)

    def __contains__(self, key: object) -> bool:
        return key in _OPEN or key in _SEALED

    def keys(self) -> KeysView[str]:
        """Return the names of the fields of both halves."""
        return KeysView(self._as_mapping)

    def values(self) -> ValuesView[Any]:
        """Return the values of the fields, as plain JSON."""
        return ValuesView(self._as_mapping)

    def items(self) -> ItemsView[str, Any]:
        """Return names and values of the fields."""
        return ItemsView(self._as_mapping)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a field, or `default` if there is no such field."""
        try:
            return self[key]
        except KeyError:
            return default

    @property
    def _as_mapping(self) -> Mapping[str, Any]:
        # Registered as one below; a struct cannot inherit from it.
        return cast("Mapping[str, Any]", self)

    # -- as a decision ------------------------------------------------------------------------

    @property
    def leading_code(self) -> str | None:
        """The code that line, words and advice are about; None if no code refuses."""
        if self.recorded_lead is not None or self.refusal_class is None:
            return self.recorded_lead
        known = registry_or_core()
        entries = (known.get(code) for code in self.reason_codes)
        lead = leading_entry(filter(None, entries))
        return self.reason_codes[0] if lead is None else lead.code

    @property
    def may_execute(self) -> bool:
        """Whether the caller may go ahead: allowed, or not bound by the verdict."""
        return self.verdict is Verdict.ALLOW or not self.enforced

    @property
    def outcome(self) -> Outcome:
        """What the decision means, in one word; in advisory mode it does not bind."""
        return Outcome.from_output(self.verdict, self.decision_output)

    @property
    def outcome_sentence(self) -> str:
        """One sentence: who must do what next; in advisory mode the action may run."""
        return self.outcome.sentence if self.enforced else _ADVISORY

    @property
    def decision(self) -> Decision:
        """The decision in the record, as `resolve` takes it."""
        personal = self.personal
        requester, scope = (None, {}) if personal is None else (personal.requester, personal.scope)
        shared: dict[str, Any] = {name: getattr(self, name) for name in _SHARED}
        return Decision(
            **shared,
            accepted=self.accepted,
            requester=requester,
            scope=scope,
            unusable={fact.field: str(fact) for fact in self.invalid if fact.why},
        )


_ADVISORY = "Advisory mode: the decision is recorded and does not bind; the action may run."
# A record keeps these fields of its decision as they are; others are redacted or sealed.
_CHANGED = {"accepted", "requester", "scope", "unusable"}
_SHARED = tuple(name for name in Decision.__struct_fields__ if name not in _CHANGED)


_OPEN = tuple(f for f in DecisionRecord.__struct_encode_fields__ if f != "sealed")
Mapping.register(DecisionRecord)

"""The refusal envelope: everything a consumer needs, with or without the registry.

The text line is its projection. Class, advice and parent travel with the code, so a reader that
does not know an organisation's code still knows what to do. An envelope may come from anyone: for a
code that is known here, its claims can be stricter than the registry, never looser.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

import msgspec

from demur.codes.entry import Entry
from demur.codes.loading import default_registry, registry_or_core
from demur.codes.refusal_line import build_refusal_line, parse_refusal
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope, Severity, Surface
from demur.errors import InputError, InputTypeError


class RefusalSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The provider, framework or guard that refused, and its native signal.

    `native` is plain JSON, verbatim; `path` is its place in the response. `served_by` names the
    model that answered instead. `confidence` is set only if prose was classified, not if a
    typed signal was read.
    """

    name: str
    path: str | None = None
    native: Any = None
    served_by: str | None = None
    confidence: float | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("a source needs a name", help="the guard, policy or provider")
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise InputError(f"a confidence lies between 0 and 1, not {self.confidence}")


MAX_DETAIL_LENGTH = 2000


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """One refusal with its reason, class and advice. Build one with `Refusal.from_code`."""

    code: str
    refusal_class: RefusalClass | None
    advice: Advice | None
    retry_scope: RetryScope | None
    severity: Severity
    decided: bool
    registry: str
    parent: str | None = None
    detail: str = ""
    evidence: Mapping[str, Any] = {}
    surface: Surface | None = None
    source: RefusalSource | None = None
    decision_id: str | None = None
    schema_version: Literal["refusal.v1"] = "refusal.v1"
    line: str = ""

    def __post_init__(self) -> None:
        expected = build_refusal_line(self.code, self.detail)
        if not self.line:
            msgspec.structs.force_setattr(self, "line", expected)
        elif self.line != expected:
            raise InputError(
                "the line of a refusal does not match its code and detail",
                help="leave `line` out; it follows from them",
            )
        if len(self.detail) > MAX_DETAIL_LENGTH:
            raise InputError(
                f"a detail has at most {MAX_DETAIL_LENGTH} characters, not {len(self.detail)}",
                help="`Refusal.from_code` cuts it and says so",
            )

    @classmethod
    def from_code(
        cls,
        code: str,
        detail: str = "",
        *,
        evidence: Mapping[str, Any] | None = None,
        surface: Surface | str | None = None,
        source: RefusalSource | str | None = None,
        decision_id: str | None = None,
        registry: Registry | None = None,
    ) -> Self:
        """Return the refusal for a registered `code`, its facts filled in from the registry.

        The registry's advice to accept constraints holds only if the evidence names them under
        `constraints`; otherwise the advice is to change the request. A detail that is too long
        is cut, and ends in how much was left out. A `source` given as text is its name.

        Raises:
            UnknownCodeError: The code is in no registry.
        """
        known = default_registry() if registry is None else registry
        entry = known[code]
        if not isinstance(detail, str):
            raise InputTypeError.wrong_type("a detail", "a string", detail)
        if surface is not None and surface not in set(Surface):
            known_surfaces = ", ".join(Surface)
            raise InputError(f"unknown surface `{surface}`", help=f"one of {known_surfaces}")
        facts = _to_json_evidence(evidence)
        return cls(
            code=str(entry.code),
            refusal_class=entry.refusal_class,
            advice=offered_advice(entry.advice, facts),
            retry_scope=entry.retry_scope,
            severity=entry.severity,
            decided=entry.decided,
            registry=known.label,
            parent=entry.parent,
            detail=clip_detail(detail),
            evidence=facts,
            surface=None if surface is None else Surface(surface),
            source=RefusalSource(name=source) if isinstance(source, str) else source,
            decision_id=decision_id,
        )

    @classmethod
    def from_line(cls, text: str, *, registry: Registry | None = None) -> Self | None:
        """Return the refusal that `text` carries, or None if it is no refusal line."""
        parsed = parse_refusal(text, registry=registry)
        return None if parsed is None else cls.from_code(*parsed, registry=registry)

    def __str__(self) -> str:
        return self.line


def list_named(evidence: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return the names that evidence lists under `key`, such as `missing` or `constraints`."""
    value = evidence.get(key)
    names = value if isinstance(value, list | tuple) else (value,)
    return tuple(name for name in names if isinstance(name, str) and name.strip())


def offered_advice(advice: Advice | None, evidence: Mapping[str, Any]) -> Advice | None:
    """Return the advice, or another one if it is to accept constraints that nobody named."""
    # INVARIANT: a refusal advises to accept constraints only if it names them.
    if advice is Advice.ACCEPT_CONSTRAINTS and not list_named(evidence, "constraints"):
        return Advice.CHANGE_REQUEST
    return advice


def clip_detail(detail: str) -> str:
    """Return `detail` encodable and cut to its limit, with a note of how much was left out."""
    detail = detail.encode("utf-8", "replace").decode("utf-8")
    if len(detail) <= MAX_DETAIL_LENGTH:
        return detail
    kept = MAX_DETAIL_LENGTH - len(f"… [{len(detail)} more characters]")
    return f"{detail[:kept]}… [{len(detail) - kept} more characters]"


def _to_json_evidence(evidence: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the evidence as plain JSON values, so that the refusal can be sent."""
    if evidence is None:
        return {}
    if not isinstance(evidence, Mapping):
        raise InputTypeError.wrong_type("evidence", "a mapping", evidence)
    try:
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(evidence)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"evidence must be plain JSON values: {error}") from error
    return plain


_MAX_VALUES = 20_000
_MAX_CHARACTERS = 2_000_000
_OF_ANY_SIZE = ("evidence", "source")
# Advice that fits a hard block: none of it sends the same request again.
AFTER_HARD = frozenset(
    {Advice.DO_NOT_RETRY, Advice.CHANGE_REQUEST, Advice.RESET_CONTEXT, Advice.ESCALATE_OPERATOR}
)
_SCOPES = (None, *RetryScope)
_SEVERITIES = tuple(Severity)


def refusal_from_envelope(data: Mapping[str, Any]) -> Refusal | None:
    """Return the refusal in an envelope, tightened to the registry, or None. Never raises.

    If the envelope is too large, evidence and source are left out, and the evidence says so.
    """
    try:
        small = dict(data) if _is_small(data) else _without_large_members(data)
        # Round trip through JSON, so that the evidence can be sent on.
        refusal = msgspec.json.decode(msgspec.json.encode(small), type=Refusal)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    return tighten_to_registry(refusal)


def tighten_to_registry(refusal: Refusal, *, registry: Registry | None = None) -> Refusal:
    """Return the refusal with the registry's facts where its own are looser.

    A code that is not registered keeps what its envelope says.
    """
    known = registry_or_core() if registry is None else registry
    entry = known.get(refusal.code)
    if entry is None:
        return refusal
    # INVARIANT: a refusal with a known code is never looser than the registry.
    facts = {
        "refusal_class": max(
            refusal.refusal_class,
            entry.refusal_class,
            key=lambda kind: 0 if kind is None else kind.strictness,
        ),
        "advice": _tightened_advice(refusal, entry),
        "retry_scope": max(refusal.retry_scope, entry.retry_scope, key=_SCOPES.index),
        "severity": max(refusal.severity, entry.severity, key=_SEVERITIES.index),
        "decided": entry.decided,
        "parent": entry.parent,
    }
    if all(getattr(refusal, name) == value for name, value in facts.items()):
        return refusal
    return msgspec.structs.replace(refusal, registry=known.label, **facts)


def _tightened_advice(refusal: Refusal, entry: Entry) -> Advice | None:
    """Return the refusal's advice if a decision about the code can have it, or the registry's."""
    own, usual = refusal.advice, entry.advice
    is_soft = entry.refusal_class is RefusalClass.SOFT_BLOCK
    is_hard = entry.refusal_class is RefusalClass.HARD_BLOCK
    possible = {None, Advice.DO_NOT_RETRY, usual}
    # The limits of a policy, the end of all attempts, or a stricter code beside this one.
    possible |= {Advice.ACCEPT_CONSTRAINTS} if is_soft else set()
    possible |= {Advice.CHANGE_REQUEST} if usual is Advice.ACCEPT_CONSTRAINTS else set()
    possible |= set() if is_hard else {Advice.ESCALATE_OPERATOR}
    if refusal.refusal_class is RefusalClass.HARD_BLOCK and not is_hard:
        possible |= AFTER_HARD
    return offered_advice(own if own in possible else usual, refusal.evidence)


def _without_large_members(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the envelope without the members of unbounded size."""
    names = set(Refusal.__struct_fields__) - set(_OF_ANY_SIZE)
    kept = {name: data[name] for name in names if name in data}
    if not _is_small(kept):
        raise ValueError
    return {**kept, "evidence": {"left_out": [name for name in _OF_ANY_SIZE if name in data]}}


def _is_small(data: object) -> bool:
    """Return whether the value is small enough to copy; shared parts count each time."""
    waiting, values, characters = [data], 0, 0
    while waiting:
        one = waiting.pop()
        values += 1
        if isinstance(one, str | bytes):
            characters += len(one)
        elif type(one) is dict:
            waiting += [*one, *one.values()]
        elif type(one) is list or type(one) is tuple:
            waiting += one
        elif isinstance(one, dict | list | tuple):
            # A subclass may iterate without end.
            return False
        if values + len(waiting) > _MAX_VALUES or characters > _MAX_CHARACTERS:
            return False
    return True

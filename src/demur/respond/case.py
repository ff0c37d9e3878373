"""Read the facts of a refusal from a decision, a record or a refusal, and for which audience."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

import msgspec

from demur.codes.loading import registry_or_core
from demur.codes.reason_code import ReasonCode
from demur.codes.refusal_line import build_refusal_line
from demur.codes.registry import Registry
from demur.codes.vocabulary import (
    Advice,
    DecisionOutput,
    Obligation,
    RefusalClass,
    RetryScope,
    Severity,
    Surface,
)
from demur.errors import InputError, InputTypeError
from demur.model.decision import Decision
from demur.model.finding import Finding
from demur.model.help_lines import UNKNOWN_LOCALE
from demur.model.record import DecisionRecord, Personal
from demur.model.refusal import Refusal, list_named, offered_advice
from demur.respond.template import TemplateGroup
from demur.source.item import did_you_mean

ComposeSource: TypeAlias = Decision | DecisionRecord | Refusal

_SEVERITIES = tuple(Severity)


class RefusalCase(NamedTuple):
    """The facts of one refusal.

    `codes` runs from the leading code to its widest parent. `evidence` is that of the leading
    code; `help` holds help resources of any code that asks for them. `names_trusted` says that a
    policy named the missing fields, not evidence that anybody may send. `from_user` says that the
    user's own words were refused, not a text that came along.
    """

    codes: tuple[str, ...]
    group: TemplateGroup
    next_step: Advice
    retry_scope: RetryScope | None
    line: str
    evidence: Mapping[str, Any] = {}
    help: tuple[Any, ...] = ()
    missing: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    names_trusted: bool = False
    allowed: bool = False
    crisis: bool = False
    needs_help: bool = False
    held_answer: bool = False
    from_user: bool = False
    decision_id: str | None = None

    @property
    def code(self) -> str:
        """The leading code."""
        return self.codes[0]

    @property
    def is_hard(self) -> bool:
        """Whether nothing lifts it."""
        return self.group.refusal_class is RefusalClass.HARD_BLOCK


def make_case(source: ComposeSource, registry: Registry | None = None) -> RefusalCase:
    """Return the facts from which the words of a refusal are composed.

    Raises:
        InputError: Nothing was refused.
        InputTypeError: It is neither a decision, nor a record, nor a refusal.
    """
    known = registry_or_core() if registry is None else registry
    if isinstance(source, Refusal):
        return _case_from_refusal(source, known)
    if isinstance(source, Decision):
        return _case_from_decision(source, known, ())
    if isinstance(source, DecisionRecord):
        return _case_from_decision(source, known, _read_findings(source))
    raise InputTypeError.wrong_type("what was refused", "a decision, a record or a refusal", source)


def _nothing_refused_error(what: str) -> InputError:
    return InputError(f"nothing was refused: {what}", help="there is nothing to put in words")


def _case_from_refusal(refusal: Refusal, registry: Registry) -> RefusalCase:
    if refusal.refusal_class is None or refusal.advice is None:
        raise _nothing_refused_error(f"`{refusal.code}` speaks for an action")
    parents = () if refusal.parent is None else _with_parents(refusal.parent, registry)
    entry = registry.get(refusal.code)
    obligations = () if entry is None else entry.obligations
    missing = _evidence_list(refusal.evidence, "missing")
    advice = offered_advice(refusal.advice, refusal.evidence)
    assert advice is not None
    offers = advice is Advice.ACCEPT_CONSTRAINTS
    return RefusalCase(
        codes=(refusal.code, *parents),
        group=TemplateGroup(refusal.refusal_class, refusal.decided),
        next_step=advice,
        retry_scope=refusal.retry_scope,
        line=refusal.line,
        evidence=refusal.evidence,
        # Anybody may send a refusal, so its evidence must not name a help line.
        help=(),
        missing=tuple(one for one in missing if isinstance(one, str)),
        constraints=list_named(refusal.evidence, "constraints") if offers else (),
        crisis=ReasonCode.CRISIS_ESCALATION in {refusal.code, *parents},
        needs_help=Obligation.CRISIS_RESOURCES in obligations,
        held_answer=refusal.surface is Surface.OUTPUT,
        from_user=refusal.surface is Surface.INPUT,
        decision_id=refusal.decision_id,
    )


def _case_from_decision(
    decision: Decision | DecisionRecord, registry: Registry, findings: tuple[Finding, ...]
) -> RefusalCase:
    if decision.refusal_class is None or decision.next_step is None:
        raise _nothing_refused_error(f"the decision is {decision.decision_output}")
    code = decision.leading_code or _leading_code(
        decision.reason_codes, registry, decision.refusal_class
    )
    entry = registry.get(code)
    own = [found for found in findings if found.code == code]
    named = {code, ReasonCode.CRISIS_ESCALATION}
    # Lines that a guard chose without knowing where the person is give way to those of the locale.
    helpful = [
        found.evidence
        for found in findings
        if found.code in named and found.evidence.get("locale") != UNKNOWN_LOCALE
    ]
    codes = {*decision.reason_codes, *decision.resolved_codes}
    return RefusalCase(
        codes=_with_parents(code, registry),
        group=TemplateGroup(decision.refusal_class, entry is None or entry.decided),
        next_step=decision.next_step,
        retry_scope=None if entry is None else entry.retry_scope,
        line=build_refusal_line(code, "" if entry is None else entry.summary),
        evidence={k: v for found in reversed(own) for k, v in found.evidence.items()},
        help=tuple(line for facts in helpful for line in _evidence_list(facts, "resources")),
        missing=decision.missing,
        constraints=decision.constraints,
        names_trusted=True,
        allowed=decision.decision_output is DecisionOutput.ALLOW_CONSTRAINED,
        crisis=ReasonCode.CRISIS_ESCALATION in codes,
        needs_help=Obligation.CRISIS_RESOURCES in decision.obligations,
        held_answer=bool(own) and all(found.surface is Surface.OUTPUT for found in own),
        from_user=bool(own) and all(found.surface is Surface.INPUT for found in own),
        decision_id=decision.decision_id if isinstance(decision, DecisionRecord) else None,
    )


def _read_findings(record: DecisionRecord) -> tuple[Finding, ...]:
    """Return the findings of a record; none if its personal part cannot be read."""
    try:
        personal = record.personal
    except InputError:
        return ()
    return () if personal is None else personal.findings


def _leading_code(codes: Iterable[str], registry: Registry, strictest: RefusalClass) -> str:
    """Return the leading code of a decision: strictest, then most severe, then by name."""
    entries = [(code, registry.get(code)) for code in codes]
    ranked = (
        (-_SEVERITIES.index(entry.severity), code)
        for code, entry in entries
        if entry is not None and entry.refusal_class is strictest
    )
    # If there is none, the class comes from a code that is unknown here.
    unknown = (code for code, entry in entries if entry is None)
    return min(ranked, default=(0, ""))[1] or min(unknown)


def _with_parents(code: str, registry: Registry) -> tuple[str, ...]:
    """Return a code and its parents, as far as they are known."""
    found = [code]
    while (entry := registry.get(found[-1])) is not None and entry.parent is not None:
        found.append(entry.parent)
    return tuple(found)


def _evidence_list(evidence: Mapping[str, Any], key: str) -> Iterator[Any]:
    value = evidence.get(key, ())
    yield from value if isinstance(value, list | tuple) else ()


class Audience(StrEnum):
    """`end_user`: words. `agent`: words and what a program acts on. `operator`: everything."""

    END_USER = "end_user"
    AGENT = "agent"
    OPERATOR = "operator"


def parse_audience(name: str) -> Audience:
    """Return the audience called `name`.

    Raises:
        InputError: There is no such audience.
    """
    try:
        return Audience(name)
    except ValueError:
        hint = did_you_mean(str(name), Audience) or f"one of {', '.join(Audience)}"
        raise InputError(f"unknown audience `{name}`", help=hint) from None


_PROOF = ("salt", "fingerprint", "inputs_digest")
_PERSONAL = tuple(name for name in Personal.__struct_fields__ if name not in _PROOF)
_TYPES: Mapping[str, type[Any]] = {"decision_record.v1": DecisionRecord, "refusal.v1": Refusal}


def parse_compose_source(value: Mapping[str, Any]) -> ComposeSource:
    """Return a record or refusal by its `schema_version`; without one, a decision.

    Raises:
        InputError: It is none of them, or not a whole one.
    """
    version = value.get("schema_version")
    kind = Decision if version is None else _TYPES.get(str(version))
    if kind is None:
        known = ", ".join(_TYPES)
        raise InputError(f"unknown schema version `{version}`", help=f"one of {known}, or none")
    try:
        source: ComposeSource = msgspec.convert(dict(value), kind)
        return _attach_personal(source, value) if isinstance(source, DecisionRecord) else source
    except msgspec.ValidationError as error:
        message = str(error)
        raise InputError(message[:1].lower() + message[1:]) from error


def _attach_personal(record: DecisionRecord, value: Mapping[str, Any]) -> DecisionRecord:
    """Return the record with the personal fields of its mapping attached."""
    shown = {name: value[name] for name in _PERSONAL if value.get(name) is not None}
    if record.sealed is not None or "request" not in shown:
        return record
    personal = msgspec.convert({**dict.fromkeys(_PROOF, ""), **shown}, Personal)
    return msgspec.structs.replace(record, sealed=msgspec.json.encode(personal))

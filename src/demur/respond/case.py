"""What is to be put in words: the same few facts, whether of a decision, record or refusal."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from demur.codes.default import registry_or_core
from demur.codes.entry import Entry
from demur.codes.line import build_refusal_line
from demur.codes.reason_code import ReasonCode
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
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.respond.template import TemplateGroup

__all__ = ["RefusalCase", "ComposeSource", "make_case"]

ComposeSource: TypeAlias = Decision | DecisionRecord | Refusal

_SEVERITIES = tuple(Severity)


class RefusalCase(NamedTuple):
    """The facts of one refusal.

    `codes` runs from the leading code to its widest parent. `evidence` is that of the leading
    code; `help` holds help resources of any code that asks for them. `names_trusted` says that a
    policy named the missing fields, not evidence that anybody may send.
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
    duties = () if entry is None else entry.obligations
    advice = refusal.advice
    if advice is Advice.ACCEPT_CONSTRAINTS:
        # A refusal offers no constraints that could be accepted.
        advice = Advice.CHANGE_REQUEST
    return RefusalCase(
        codes=(refusal.code, *parents),
        group=TemplateGroup(refusal.refusal_class, refusal.decided),
        next_step=advice,
        retry_scope=refusal.retry_scope,
        line=refusal.line,
        evidence=refusal.evidence,
        # Anybody may send a refusal, so its evidence must not name a help line.
        help=(),
        missing=tuple(
            one for one in _evidence_list(refusal.evidence, "missing") if isinstance(one, str)
        ),
        crisis=ReasonCode.CRISIS_ESCALATION in {refusal.code, *parents},
        needs_help=Obligation.CRISIS_RESOURCES in duties,
        held_answer=refusal.surface is Surface.OUTPUT,
    )


def _case_from_decision(
    decision: Decision | DecisionRecord, registry: Registry, findings: tuple[Finding, ...]
) -> RefusalCase:
    if decision.refusal_class is None or decision.next_step is None:
        raise _nothing_refused_error(f"the decision is {decision.decision_output}")
    code = _leading_code(decision.reason_codes, registry, decision.refusal_class)
    entry = registry.get(code)
    own = [found for found in findings if found.code == code]
    duties = set(decision.obligations)
    codes = {*decision.reason_codes, *decision.resolved_codes}
    return RefusalCase(
        codes=_with_parents(code, registry),
        group=TemplateGroup(decision.refusal_class, entry is None or entry.decided),
        next_step=decision.next_step,
        retry_scope=None if entry is None else entry.retry_scope,
        line=build_refusal_line(code, ""),
        evidence={k: v for found in reversed(own) for k, v in found.evidence.items()},
        help=tuple(_help_resources(findings, code)),
        missing=decision.missing,
        constraints=decision.constraints,
        names_trusted=True,
        allowed=decision.decision_output is DecisionOutput.ALLOW_CONSTRAINED,
        crisis=ReasonCode.CRISIS_ESCALATION in codes,
        needs_help=Obligation.CRISIS_RESOURCES in duties,
        held_answer=bool(own) and all(found.surface is Surface.OUTPUT for found in own),
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
    ranked = [(_rank_entry(entry), code) for code, entry in entries if entry is not None]
    first = min((pair for pair in ranked if pair[0][0] == -strictest.strictness), default=None)
    if first is not None:
        return first[1]
    # The class comes from a code that is unknown here.
    return min(code for code, entry in entries if entry is None)


def _rank_entry(entry: Entry) -> tuple[int, int]:
    strictness = 0 if entry.refusal_class is None else entry.refusal_class.strictness
    return (-strictness, -_SEVERITIES.index(entry.severity))


def _with_parents(code: str, registry: Registry) -> tuple[str, ...]:
    """Return a code and its parents, as far as they are known."""
    found = [code]
    while (entry := registry.get(found[-1])) is not None and entry.parent is not None:
        found.append(entry.parent)
    return tuple(found)


def _evidence_list(evidence: Mapping[str, Any], key: str) -> Iterator[Any]:
    value = evidence.get(key, ())
    yield from value if isinstance(value, list | tuple) else ()


def _help_resources(findings: Iterable[Finding], code: str) -> Iterator[Any]:
    for found in findings:
        if found.code in {code, ReasonCode.CRISIS_ESCALATION}:
            yield from _evidence_list(found.evidence, "resources")

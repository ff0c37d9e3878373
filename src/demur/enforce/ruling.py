"""The result of a check, for whoever enforces it.

It rests on the findings of guards and, with a gate, on the decision record. It holds the words
for each reader: a line for logs, a message for a model, a text for a person, an envelope for
programs.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, DecisionOutput, Obligation, RefusalClass, Surface
from demur.emit.envelope import to_envelope
from demur.enforce.answers import answer_for, help_lines
from demur.errors import DemurError
from demur.model.finding import Action, Finding
from demur.model.next_step import NextStep, next_step
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.policy.evaluation import floor

__all__ = ["Refused", "Ruling", "counts", "refusal_of", "rule"]


# Members of evidence that quote the text; only the record keeps them.
_QUOTES = frozenset({"excerpt"})


class Ruling(NamedTuple):
    """Whether something is allowed, and if not, why.

    It is true if it allows; otherwise `refusal` is set. `constraints` bind an allowed action.
    `obligations` must be met either way: a person reviews it, the `resources` are shown.
    `locale` chooses the language of the text for a person.
    """

    surface: Surface
    allowed: bool = True
    findings: tuple[Finding, ...] = ()
    record: DecisionRecord | None = None
    refusal: Refusal | None = None
    constraints: tuple[str, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    resources: tuple[str, ...] = ()
    locale: str | None = None

    def __bool__(self) -> bool:
        return self.allowed

    @property
    def line(self) -> str:
        """The refusal in one line, for logs and programs that read text; empty if allowed."""
        return "" if self.refusal is None else self.refusal.line

    @property
    def next_step(self) -> NextStep | None:
        """What to do after the refusal."""
        return None if self.refusal is None else next_step(self.refusal)

    @property
    def message(self) -> str:
        """The message for a model: the refusal line, and the next step below it."""
        step = self.next_step
        return "" if step is None else f"{self.line}\n{step.sentence}"

    @property
    def words(self) -> str:
        """The text for a person instead of an answer; empty if allowed."""
        if self.refusal is None:
            return ""
        return answer_for(self.refusal, self.resources, self.locale)

    @property
    def envelope(self) -> dict[str, Any]:
        """The refusal as plain JSON; empty if allowed."""
        return {} if self.refusal is None else to_envelope(self.refusal)

    @property
    def is_hard(self) -> bool:
        """Whether it is a hard block, which nothing lifts."""
        return self.refusal is not None and self.refusal.refusal_class is RefusalClass.HARD_BLOCK

    @property
    def failed(self) -> bool:
        """Whether the check could not be made: a guard, the store or the input was at fault."""
        return self.refusal is not None and not self.refusal.decided

    @property
    def may_be_approved(self) -> bool:
        """Whether it needs a person's approval, and nothing else."""
        refusal = self.refusal
        return (
            refusal is not None
            and refusal.decided
            and refusal.refusal_class is RefusalClass.WORKFLOW_BLOCK
            and refusal.advice is Advice.REQUEST_APPROVAL
        )

    def or_raise(self) -> Self:
        """Return the result if it allows.

        Raises:
            Refused: It does not allow.
        """
        if self.refusal is not None:
            raise Refused(self)
        return self


class Refused(DemurError):  # noqa: N818 - a refusal is no error
    """Something was refused; `result` holds the details. `str()` is the refusal line."""

    def __init__(self, ruling: Ruling) -> None:
        assert ruling.refusal is not None
        super().__init__(ruling.line)
        self.ruling = ruling
        self.refusal = ruling.refusal

    @property
    def envelope(self) -> dict[str, Any]:
        """The refusal as plain JSON."""
        return self.ruling.envelope

    def __reduce__(self) -> tuple[type[Self], tuple[Ruling]]:
        return type(self), (self.ruling,)


def rule(
    surface: Surface,
    findings: Iterable[Finding],
    record: DecisionRecord | None,
    *,
    registry: Registry,
    locale: str | None = None,
    said: Refusal | None = None,
) -> Ruling:
    """Return the result of findings and the gate's decision; without a record, of findings alone.

    `native_refusal` is the model's or provider's own refusal, if there is one: if its code
    decides, it is passed on unchanged.
    """
    found = tuple(findings)
    # INVARIANT: a result allows what the gate allows; without a gate, what no finding blocks.
    if record is not None:
        allowed = record.may_execute
    else:
        allowed = not any(counts(one.code, one.action, registry) for one in found)
    obligations = _obligations(found, record, registry)
    return Ruling(
        surface,
        allowed,
        found,
        record,
        None if allowed else refusal_of(found, record, registry, said),
        _constraints(record),
        obligations,
        help_lines(found, obligations, locale),
        locale,
    )


def counts(code: str, action: Action, registry: Registry) -> bool:
    """Return whether a finding of that code and action blocks without a gate."""
    entry = registry[code]
    # A code that could not be judged or that has obligations is never a mere warning.
    return action is not Action.WARN or not entry.decided or bool(entry.obligations)


def refusal_of(
    findings: Sequence[Finding],
    record: DecisionRecord | None,
    registry: Registry,
    said: Refusal | None = None,
) -> Refusal:
    """Return the refusal of the strictest code among findings and decision."""
    counted = [one for one in findings if counts(one.code, one.action, registry)]
    codes = [one.code for one in counted] if record is None else record.reason_codes
    code = max(codes, key=lambda each: _strictness(each, findings, registry))
    decision_id = None if record is None else record.decision_id
    if said is not None and said.code == code:
        return msgspec.structs.replace(said, decision_id=decision_id)
    found = next((one for one in counted if one.code == code), None)
    if found is None:
        return Refusal.of(
            code,
            registry[code].summary,
            evidence=_needs(record),
            decision_id=decision_id,
            registry=registry,
        )
    return Refusal.of(
        code,
        found.detail,
        evidence={**_needs(record), **_told(found)},
        surface=found.surface,
        decision_id=decision_id,
        registry=registry,
    )


def _strictness(code: str, findings: Iterable[Finding], registry: Registry) -> tuple[int, int]:
    """Return the rank of a code: by its verdict, then by its class."""
    entry = registry[code]
    asked = {one.action for one in findings if one.code == code} or {Action.BLOCK}
    kind = entry.refusal_class
    verdict = max(floor(entry, action).precedence for action in asked)
    return verdict, 0 if kind is None else kind.strictness


def _told(found: Finding) -> dict[str, Any]:
    """Return the evidence without quotations, because a refusal may reach anyone."""
    return {name: value for name, value in found.evidence.items() if name not in _QUOTES}


def _needs(record: DecisionRecord | None) -> dict[str, Any]:
    """Return what is missing and which constraints are offered, as evidence."""
    if record is None:
        return {}
    needs = {"missing": list(record.missing), "constraints": list(record.constraints)}
    return {name: listed for name, listed in needs.items() if listed}


def _constraints(record: DecisionRecord | None) -> tuple[str, ...]:
    bound = record is not None and record.decision_output is DecisionOutput.ALLOW_CONSTRAINED
    return record.constraints if record is not None and bound else ()


def _obligations(
    findings: Iterable[Finding], record: DecisionRecord | None, registry: Registry
) -> tuple[Obligation, ...]:
    named = {duty for found in findings for duty in registry[found.code].obligations}
    if record is not None:
        named |= set(record.obligations)
    return tuple(duty for duty in Obligation if duty in named)

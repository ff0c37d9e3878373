"""The result of a check, for whoever enforces it.

It rests on the findings of guards and, with a gate, on the decision record. It holds the words for
each reader: a line for logs, a message for a model, a text for a person, an envelope for programs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import msgspec
from msgspec.structs import asdict

from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, DecisionOutput, Obligation, RefusalClass, Surface
from demur.emit.envelope import to_envelope
from demur.errors import DemurError
from demur.guards.input import find_help_resources
from demur.model.finding import Action, Finding
from demur.model.next_step import NextStep, next_step
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.policy.evaluation import verdict_floor
from demur.respond.graceful import render

_LANGUAGE = "en"
FAILURE_TEXT = "I couldn't get an answer just now: the hold-up is on our side. Please try again."


def refusal_text(refusal: Refusal, resources: Iterable[str] = (), locale: str | None = None) -> str:
    """Return the text to show for a refusal.

    If there are `resources`, a person may be in danger: the crisis text comes first, whatever
    else was refused.
    """
    lines = tuple(resources)
    if not lines:
        return render(refusal, locale=locale or _LANGUAGE)
    if not any("emergency" in line for line in lines):
        lines = (*lines, _format_resource(asdict(find_help_resources(None)[0])))
    crisis = Refusal.from_code(ReasonCode.CRISIS_ESCALATION)
    return render(crisis, locale=locale or _LANGUAGE, resources=lines)


def help_lines(
    findings: Iterable[Finding], obligations: Iterable[str] = (), locale: str | None = None
) -> tuple[str, ...]:
    """Return the help lines that the answer must carry; empty unless a person is in danger.

    They are those that a guard named, or else those of the locale.
    """
    crisis = [found for found in findings if found.code == ReasonCode.CRISIS_ESCALATION]
    if not crisis and Obligation.CRISIS_RESOURCES not in set(obligations):
        return ()
    named = dict.fromkeys(line for found in crisis for line in _named_resources(found.evidence))
    usual = (_format_resource(asdict(resource)) for resource in find_help_resources(locale))
    return tuple(named) or tuple(usual)


def _named_resources(evidence: Mapping[str, Any]) -> Iterator[str]:
    listed = evidence.get("resources", ())
    for item in listed if isinstance(listed, list | tuple) else ():
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            yield _format_resource(item)


def _format_resource(resource: Mapping[str, Any]) -> str:
    place = f" ({resource['country']})" if resource.get("country") else ""
    return f"{resource.get('name', '')}{place}: {resource.get('contact', '')}"


def append_resources(text: str, resources: Iterable[str]) -> str:
    """Return an answer with the help lines below it."""
    lines = [f"- {line}" for line in resources]
    return "\n".join([text, "", *lines]) if lines else text


# Members of evidence that quote the text; only the record keeps them.
_QUOTES = frozenset({"excerpt"})


class CheckResult(NamedTuple):
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
    def model_message(self) -> str:
        """The message for a model: the refusal line, and the next step below it."""
        step = self.next_step
        return "" if step is None else f"{self.line}\n{step.sentence}"

    @property
    def user_text(self) -> str:
        """The text for a person instead of an answer; empty if allowed."""
        if self.refusal is None:
            return ""
        return refusal_text(self.refusal, self.resources, self.locale)

    @property
    def envelope(self) -> dict[str, Any]:
        """The refusal as plain JSON; empty if allowed."""
        return {} if self.refusal is None else to_envelope(self.refusal)

    @property
    def is_hard(self) -> bool:
        """Whether it is a hard block, which nothing lifts."""
        return self.refusal is not None and self.refusal.refusal_class is RefusalClass.HARD_BLOCK

    @property
    def is_undecided(self) -> bool:
        """Whether the check could not be made: a guard, the store or the input was at fault."""
        return self.refusal is not None and not self.refusal.decided

    @property
    def needs_approval(self) -> bool:
        """Whether it needs a person's approval, and nothing else."""
        refusal = self.refusal
        return (
            refusal is not None
            and refusal.decided
            and refusal.refusal_class is RefusalClass.WORKFLOW_BLOCK
            and refusal.advice is Advice.REQUEST_APPROVAL
        )

    def raise_if_refused(self) -> Self:
        """Return the result if it allows.

        Raises:
            Refused: It does not allow.
        """
        if self.refusal is not None:
            raise Refused(self)
        return self


class Refused(DemurError):  # noqa: N818 - a refusal is no error
    """Something was refused; `result` holds the details. `str()` is the refusal line."""

    def __init__(self, result: CheckResult) -> None:
        assert result.refusal is not None
        super().__init__(result.line)
        self.result = result
        self.refusal = result.refusal

    @property
    def envelope(self) -> dict[str, Any]:
        """The refusal as plain JSON."""
        return self.result.envelope

    def __reduce__(self) -> tuple[type[Self], tuple[CheckResult]]:
        return type(self), (self.result,)


def build_result(
    surface: Surface,
    findings: Iterable[Finding],
    record: DecisionRecord | None,
    *,
    registry: Registry,
    locale: str | None = None,
    native_refusal: Refusal | None = None,
) -> CheckResult:
    """Return the result of findings and the gate's decision; without a record, of findings alone.

    `native_refusal` is the model's or provider's own refusal, if there is one: if its code
    decides, it is passed on unchanged.
    """
    found = tuple(findings)
    # INVARIANT: a result allows what the gate allows; without a gate, what no finding blocks.
    if record is not None:
        allowed = record.may_execute
    else:
        allowed = not any(finding_blocks(one.code, one.action, registry) for one in found)
    obligations = _all_obligations(found, record, registry)
    return CheckResult(
        surface,
        allowed,
        found,
        record,
        None if allowed else build_refusal(found, record, registry, native_refusal),
        _binding_constraints(record),
        obligations,
        help_lines(found, obligations, locale),
        locale,
    )


def finding_blocks(code: str, action: Action, registry: Registry) -> bool:
    """Return whether a finding of that code and action blocks without a gate."""
    entry = registry[code]
    # A code that could not be judged or that has obligations is never a mere warning.
    return action is not Action.WARN or not entry.decided or bool(entry.obligations)


def build_refusal(
    findings: Sequence[Finding],
    record: DecisionRecord | None,
    registry: Registry,
    native_refusal: Refusal | None = None,
) -> Refusal:
    """Return the refusal of the strictest code among findings and decision."""
    counted = [one for one in findings if finding_blocks(one.code, one.action, registry)]
    codes = [one.code for one in counted] if record is None else record.reason_codes
    code = max(codes, key=lambda each: _code_strictness(each, findings, registry))
    decision_id = None if record is None else record.decision_id
    if native_refusal is not None and native_refusal.code == code:
        return msgspec.structs.replace(native_refusal, decision_id=decision_id)
    found = next((one for one in counted if one.code == code), None)
    if found is None:
        return Refusal.from_code(
            code,
            registry[code].summary,
            evidence=_needs_evidence(record),
            decision_id=decision_id,
            registry=registry,
        )
    return Refusal.from_code(
        code,
        found.detail,
        evidence={**_needs_evidence(record), **_public_evidence(found)},
        surface=found.surface,
        decision_id=decision_id,
        registry=registry,
    )


def _code_strictness(code: str, findings: Iterable[Finding], registry: Registry) -> tuple[int, int]:
    """Return the rank of a code: by its verdict, then by its class."""
    entry = registry[code]
    asked = {one.action for one in findings if one.code == code} or {Action.BLOCK}
    kind = entry.refusal_class
    verdict = max(verdict_floor(entry, action).precedence for action in asked)
    return verdict, 0 if kind is None else kind.strictness


def _public_evidence(finding: Finding) -> dict[str, Any]:
    """Return the evidence without quotations, because a refusal may reach anyone."""
    return {name: value for name, value in finding.evidence.items() if name not in _QUOTES}


def _needs_evidence(record: DecisionRecord | None) -> dict[str, Any]:
    """Return what is missing and which constraints are offered, as evidence."""
    if record is None:
        return {}
    needs = {"missing": list(record.missing), "constraints": list(record.constraints)}
    return {name: listed for name, listed in needs.items() if listed}


def _binding_constraints(record: DecisionRecord | None) -> tuple[str, ...]:
    bound = record is not None and record.decision_output is DecisionOutput.ALLOW_CONSTRAINED
    return record.constraints if record is not None and bound else ()


def _all_obligations(
    findings: Iterable[Finding], record: DecisionRecord | None, registry: Registry
) -> tuple[Obligation, ...]:
    named = {duty for found in findings for duty in registry[found.code].obligations}
    if record is not None:
        named |= set(record.obligations)
    return tuple(duty for duty in Obligation if duty in named)


class GuardedAnswer(NamedTuple):
    """An answer that may be shown, even if the call was refused or failed.

    `text` is the model's answer, or the text to show instead. `blocked` says that the call was
    refused, and `refusal` why: `str(refusal)` is the line for logs. If the model itself failed,
    `error` is set and `blocked` is false. `obligations` must always be met: a person reviews
    the call, and the `resources`, which `text` already holds, are shown.
    """

    text: str
    blocked: bool = False
    findings: tuple[Finding, ...] = ()
    record: DecisionRecord | None = None
    refusal: Refusal | None = None
    error: Finding | None = None
    obligations: tuple[Obligation, ...] = ()
    resources: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

"""The result of a check, for whoever enforces it.

It rests on the findings of guards and, with a gate, on the decision record. It holds the words for
each reader: a line for logs, a message for a model, a text for a person, an envelope for programs.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, Literal, NamedTuple, Self, get_args

from msgspec.structs import asdict, replace

from demur.classification import make_decision, missing_grants
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import (
    Advice,
    DecisionOutput,
    Obligation,
    RefusalClass,
    Surface,
    strictest_verdict,
)
from demur.emit.envelope import to_envelope
from demur.enforce.changes import TextChanges
from demur.enforce.context import Call, Steps, adrive, drive
from demur.errors import DemurError, InputError, InputTypeError
from demur.gate.scoring import NO_MODELS, NO_SIGNALS, ScoreSignals
from demur.guards.tool_result import QUOTE_EVIDENCE
from demur.model.decision import Decision, Outcome
from demur.model.finding import Action, Finding
from demur.model.grant import Grant
from demur.model.help_lines import UNKNOWN_LOCALE, find_help_resources
from demur.model.next_steps import NextStep, next_step
from demur.model.record import DecisionRecord, ModelRef
from demur.model.refusal import Refusal, list_named
from demur.policy.evaluation import (
    FoundCode,
    change_constraints,
    finding_blocks,
    merge_missing,
    verdict_floor,
)
from demur.respond.case import make_case
from demur.respond.graceful import compose, render
from demur.respond.slots import choose_help_lines, format_help_line
from demur.respond.template_file import builtin_templates
from demur.respond.words import compose_words

_LANGUAGE = "en"
_log = logging.getLogger("demur")
FAILURE_TEXT = "I couldn't get an answer just now: the hold-up is on our side. Please try again."


def refusal_text(
    refusal: Refusal,
    resources: Iterable[str] = (),
    locale: str | None = None,
    *,
    record: DecisionRecord | None = None,
) -> str:
    """Return the text to show for a refusal; it lists what the `record` names as missing.

    If there are `resources`, a person may be in danger: the crisis text comes first, whatever
    else was refused.
    """
    lines = tuple(resources)
    templates = builtin_templates().for_locale(locale or _LANGUAGE)
    if not lines:
        case = make_case(refusal)
        if record is not None and (record.missing or record.constraints):
            # The policy wrote these names, so they need not be plain words.
            case = case._replace(
                missing=record.missing, constraints=record.constraints, names_trusted=True
            )
        return compose_words(case, templates, slots={}, locale=locale).text
    if not any("emergency" in line or line in templates.resources for line in lines):
        lines = (*lines, format_help_line(asdict(find_help_resources(None)[0])))
    crisis = Refusal.from_code(ReasonCode.CRISIS_ESCALATION)
    return render(
        crisis, locale=locale or _LANGUAGE, resources=lines, variation=refusal.decision_id
    )


def help_lines(
    findings: Iterable[Finding], obligations: Iterable[str] = (), locale: str | None = None
) -> tuple[str, ...]:
    """Return the help lines that the answer must carry; empty unless a person is in danger.

    They are those that a guard named for a locale, or else those of `locale`. Lines of the built-in
    directory are in the language of `locale`, if templates are.
    """
    crisis = [found for found in findings if found.code == ReasonCode.CRISIS_ESCALATION]
    if not crisis and Obligation.CRISIS_RESOURCES not in set(obligations):
        return ()
    known = (
        found for found in crisis if not locale or found.evidence.get("locale") != UNKNOWN_LOCALE
    )
    listed = (found.evidence.get("resources") for found in known)
    named = (item for items in listed if isinstance(items, list | tuple) for item in items)
    usual = [asdict(line) for line in find_help_resources(locale)]
    lines = choose_help_lines(named, usual)
    if builtin_templates().for_locale(locale or _LANGUAGE).locale == _LANGUAGE:
        return lines
    if set(lines) <= set(map(format_help_line, usual)):
        return compose(Refusal.from_code(ReasonCode.CRISIS_ESCALATION), locale=locale).resources
    return lines


def append_resources(text: str, resources: Iterable[str]) -> str:
    """Return an answer with the help lines below it."""
    lines = [f"- {line}" for line in resources]
    return "\n".join([text, "", *lines]) if lines else text


# A model cannot take the quotation itself: the application passes it on.
_OFFER = "The rest of it can be read as quoted data: ask the user to have it passed on that way."
_ANSWER_AGAIN = "Your answer was not shown. Answer the same request again, without that."
# Members of evidence that quote the text; only the record keeps them.
_QUOTES = frozenset({"excerpt"})
# Members of evidence that the decision alone fills.
_NEEDS = frozenset({"missing", "constraints"})


class CheckResult(NamedTuple):
    """The outcome of a check, and the reason of a refusal.

    It is true if it allows; otherwise `refusal` is set. `constraints` bind an allowed action.
    `obligations` must be met either way: a person reviews it, the `resources` are shown.
    `locale` chooses the language of the text for a person. `unjudged` says that one of the
    decision's codes stands for a check that could not be made. `signals` are the scores of the
    models that scored it, and `models` those models. `quoted` is a withheld result or passage as
    quoted data, without the planted orders, where that could be made. `changes` are those that an
    allowed text needs before it goes on; `may_reask` says that the model may answer once more.
    `answer` is what people said, if the check waited for them.
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
    unjudged: bool = False
    signals: ScoreSignals = NO_SIGNALS
    models: Mapping[str, ModelRef] = NO_MODELS
    quoted: str | None = None
    changes: TextChanges | None = None
    may_reask: bool = False
    answer: str = ""

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
        """The message for a model: the refusal line, and the next step below it.

        If the settings say so, the quotation of a withheld result takes the place of the step.
        """
        step = self.next_step
        if step is None:
            return ""
        if self.answer:
            return f"{self.line}\n{self.answer}"
        if self.quoted is None:
            return f"{self.line}\n{step.sentence}"
        passed_on = any(one.evidence.get(QUOTE_EVIDENCE) for one in self.findings)
        return f"{self.line}\n{self.quoted if passed_on else f'{step.sentence} {_OFFER}'}"

    @property
    def reask_message(self) -> str:
        """The message for a model that may answer once more; empty if it may not."""
        return f"{self.line}\n{_ANSWER_AGAIN}" if self.may_reask else ""

    @property
    def user_text(self) -> str:
        """The text for a person instead of an answer; empty if allowed."""
        if self.refusal is None:
            return ""
        return refusal_text(self.refusal, self.resources, self.locale, record=self.record)

    @property
    def envelope(self) -> dict[str, Any]:
        """The refusal as plain JSON; empty if allowed."""
        return {} if self.refusal is None else to_envelope(self.refusal)

    @property
    def outcome(self) -> Outcome:
        """What the result means, in one word; it allows if and only if the result does."""
        decided = None if self.record is None else self.record.outcome
        if decided is not None and decided.allows == self.allowed:
            return decided
        if self.allowed:
            return Outcome.ALLOWED_WITH_LIMITS if self.constraints else Outcome.ALLOWED
        if self.could_not_judge:
            return Outcome.COULD_NOT_JUDGE
        refusal = self.refusal
        if refusal is None or refusal.refusal_class is not RefusalClass.WORKFLOW_BLOCK:
            return Outcome.REFUSED
        lacks = list_named(refusal.evidence, "missing")
        return Outcome.NEEDS_SOMETHING if lacks else Outcome.REFUSED

    @property
    def is_hard(self) -> bool:
        """Whether it is a hard block, which nothing lifts."""
        return self.refusal is not None and self.refusal.refusal_class is RefusalClass.HARD_BLOCK

    @property
    def could_not_judge(self) -> bool:
        """Whether no verdict was reached: a guard, the store or the input was at fault.

        The leading code is undecided, or another one is and nothing blocks hard.
        """
        if self.refusal is None:
            return False
        return not self.refusal.decided or (self.unjudged and not self.is_hard)

    @property
    def needs_approval(self) -> bool:
        """Whether it needs a person's approval, and nothing else."""
        refusal = self.refusal
        # INVARIANT: nobody is asked to approve a call that a guard could not judge.
        if refusal is None or self.could_not_judge or refusal.advice is not Advice.REQUEST_APPROVAL:
            return False
        return refusal.refusal_class is RefusalClass.WORKFLOW_BLOCK

    def apply_changes(self, value: Any) -> Any:
        """Return a checked text or JSON value as it may go on; the same object if unchanged."""
        return value if self.changes is None else self.changes.apply(value)

    def raise_if_refused(self) -> Self:
        """Return the result if it allows.

        Raises:
            Refused: It does not allow.
        """
        if self.refusal is not None:
            raise Refused(self)
        return self


class Refused(Exception):  # noqa: N818 - a refusal is no error
    """demur refused something; `result` holds the details. `str()` is the refusal line.

    It is no `DemurError`: a refusal is an answer, not a failure.
    """

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
    taken_out: Collection[Finding] = (),
) -> CheckResult:
    """Return the result of findings and the gate's decision; without a record, of findings alone.

    `native_refusal` is the model's or provider's own refusal, if there is one: if its code
    leads, it is passed on with the advice of the decision. `taken_out` are findings whose text was.
    """
    found = tuple(findings)
    owed = {name for one in found for name in registry[one.code].obligations}
    constraints: tuple[str, ...] = ()
    # INVARIANT: a result allows what the gate allows; without a gate, what no finding blocks.
    if record is None:
        left = (one for one in found if one not in taken_out)
        allowed = not any(finding_blocks(one.code, one.action, registry) for one in left)
        constraints = merge_constraints(taken_out) if allowed else ()
    else:
        allowed = record.may_execute
        owed |= set(record.obligations)
        if record.decision_output is DecisionOutput.ALLOW_CONSTRAINED:
            constraints = record.constraints
    obligations = tuple(one for one in Obligation if one in owed)
    refusal, unjudged = None, False
    if not allowed:
        decision = decide_by_findings(found, registry) if record is None else record
        refusal = build_refusal(found, decision, registry, native_refusal)
        unjudged = not all(registry[code].decided for code in decision.reason_codes)
    resources = help_lines(found, obligations, locale)
    details = (found, record, refusal, constraints, obligations, resources, locale, unjudged)
    return CheckResult(surface, allowed, *details)


def merge_constraints(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the constraints of findings whose text was taken out, each once."""
    return tuple(dict.fromkeys(name for one in findings for name in change_constraints(one)))


def decide_by_findings(findings: Iterable[Finding], registry: Registry) -> Decision:
    """Return the decision that blocking findings alone lead to, without a gate."""
    blocking = [one for one in findings if finding_blocks(one.code, one.action, registry)]
    codes = [str(one.code) for one in blocking]
    verdict = strictest_verdict(verdict_floor(registry[one.code], one.action) for one in blocking)
    missing = merge_missing((), map(FoundCode.from_finding, blocking))
    missing = missing or missing_grants(verdict, codes, registry=registry)
    return make_decision(verdict, codes, missing=missing, registry=registry)


def build_refusal(
    findings: Sequence[Finding],
    decision: Decision | DecisionRecord,
    registry: Registry,
    native_refusal: Refusal | None = None,
) -> Refusal:
    """Return the refusal of a decision: its leading code, class, advice and needs."""
    code = decision.leading_code
    assert code is not None
    decision_id = decision.decision_id if isinstance(decision, DecisionRecord) else None
    same_code = (one for one in findings if one.code == code)
    finding = next((one for one in same_code if finding_blocks(code, one.action, registry)), None)
    native = native_refusal if native_refusal and native_refusal.code == code else None
    missing, evidence = decision.missing, {} if finding is None else finding.evidence
    if native is not None:
        evidence = native.evidence
        missing = tuple(dict.fromkeys((*missing, *list_named(evidence, "missing"))))
    needs = {"missing": list(missing), "constraints": list(decision.constraints)}
    needs = {name: names for name, names in needs.items() if names}
    evidence = {**_public_evidence(evidence), **needs}
    if native is None:
        detail = finding.detail if finding else _describe_code(code, decision, registry)
        surface = None if finding is None else finding.surface
        refusal = Refusal.from_code(
            code, detail, evidence=evidence, surface=surface, registry=registry
        )
    else:
        source = native.source
        if source is not None and source.served_by is not None:
            # The answer of the other model is refused as well.
            source = replace(source, served_by=None)
        refusal = replace(native, evidence=evidence, source=source)
    # INVARIANT: code, class, advice and needs of a result are those of its decision.
    return replace(
        refusal,
        refusal_class=decision.refusal_class,
        advice=decision.next_step,
        decision_id=decision_id,
    )


def _public_evidence(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Return evidence as anyone may read it: it quotes nothing, and names no needs of its own."""
    return {key: value for key, value in evidence.items() if key not in _QUOTES | _NEEDS}


def _describe_code(code: str, decision: Decision | DecisionRecord, registry: Registry) -> str:
    """Return the detail of a code without a finding: why fields cannot be used, or its summary."""
    if code == ReasonCode.EVIDENCE_INVALID and isinstance(decision, DecisionRecord):
        unusable = "; ".join(dict.fromkeys(map(str, decision.invalid)))
        return unusable or registry[code].summary
    return registry[code].summary


def refusal_finding(refusal: Refusal, action: Action) -> Finding:
    """Return the refusal of a model or provider as a finding."""
    evidence = dict(refusal.evidence)
    source = refusal.source
    if source is not None:
        native = {"name": source.name, "path": source.path, "native": source.native}
        evidence["source"] = {name: value for name, value in native.items() if value is not None}
    return Finding(
        code=refusal.code,
        surface=Surface.MODEL,
        detail=refusal.detail,
        evidence=evidence,
        action=action,
    )


def failure_finding(error: Exception, surface: Surface) -> Finding:
    """Return the finding for a check that failed; it quotes nothing of the input."""
    if isinstance(error, InputError | InputTypeError):
        code, detail = ReasonCode.REQUEST_INVALID, f"{surface}: it cannot be judged as it is"
        evidence = {"where": str(getattr(error, "where", None) or surface)}
    else:
        code, detail = ReasonCode.INTERNAL_ERROR, f"{surface}: {type(error).__name__}"
        evidence = {"error": type(error).__name__}
        if not isinstance(error, DemurError | Refused):
            _log.exception("the check failed on surface %s", surface)
    return Finding(code=code, surface=Surface.RUNTIME, detail=detail, evidence=evidence)


def recordable_action(name: Any) -> str:
    """Return a name for the action that can be recorded, whatever the call was named."""
    text = name if isinstance(name, str) else type(name).__name__
    shown = "".join(each if each.isprintable() else "?" for each in text[:100])
    return shown.encode("utf-8", "replace").decode() or "unnamed"


class GuardedAnswer(NamedTuple):
    """An answer that may be shown, even if the call was refused or failed.

    `text` is the model's answer, or the text to show instead. `blocked` says that the call was
    refused, and `refusal` why: `str(refusal)` is the line for logs. If the model itself failed,
    `error` is set and `blocked` is false. `obligations` always hold: a person reviews the
    call, and the `resources`, which `text` already holds, are shown.
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

    @classmethod
    def from_result(cls, result: CheckResult, text: str) -> Self:
        """Return the answer for the result of its last check."""
        return cls(
            text,
            blocked=not result.allowed,
            findings=result.findings,
            record=result.record,
            refusal=result.refusal,
            obligations=result.obligations,
            resources=result.resources,
        )


# How a call that needs a person's approval asks for it: `message` tells the model, `interrupt`
# uses the framework's own pause, `wait` waits until people decided in the queue of the store. An
# approval alone lifts nothing: only a signed grant does.
Approval = Literal["message", "interrupt", "wait"]
_Grants = Iterable[Grant] | None
# Returns the grants for an approved call, given its check result and the framework's context.
# It may be async where the framework awaits.
GrantFor = Callable[[CheckResult, Any], _Grants | Awaitable[_Grants]]


def check_approval(approval: Approval) -> Approval:
    """Return the approval mode.

    Raises:
        InputError: There is no such mode.
    """
    if approval not in get_args(Approval):
        help_text = "`message`, `interrupt` or `wait`"
        raise InputError(f"unknown mode `{approval}`", where="approval", help=help_text)
    return approval


def grant_steps(
    grant_for: GrantFor | None, result: CheckResult, context: Any
) -> Steps[tuple[Grant, ...]]:
    """Yield the steps to the grants for an approved call; none without `grant_for`, or if it fails.

    Only an async caller awaits what `grant_for` returns.
    """
    if grant_for is None:
        return ()

    def call() -> _Grants:
        grants = grant_for(result, context)
        if isinstance(grants, Coroutine):
            grants.close()
        return grants  # type: ignore[return-value] # one that must be awaited is no tuple below

    async def acall() -> _Grants:
        grants = grant_for(result, context)
        return await grants if isawaitable(grants) else grants

    # INVARIANT: a `grant_for` that fails grants nothing.
    problem = TypeError.__name__
    try:
        granted = tuple((yield Call(call, async_function=acall)) or ())
        if all(isinstance(grant, Grant) for grant in granted):
            return granted
    except Exception as error:  # noqa: BLE001 - the host's own function may raise anything
        # Log the type only: the message of an error may quote the call.
        problem = type(error).__name__
    _log.error("`grant_for` gave no grants: %s", problem)
    return ()


def collect_grants(
    grant_for: GrantFor | None, result: CheckResult, context: Any
) -> tuple[Grant, ...]:
    """Return the grants for an approved call; none without `grant_for` or if it fails."""
    return drive(grant_steps(grant_for, result, context))


async def acollect_grants(
    grant_for: GrantFor | None, result: CheckResult, context: Any
) -> tuple[Grant, ...]:
    """Return the grants for an approved call, like `collect_grants`; `grant_for` may be async."""
    return await adrive(grant_steps(grant_for, result, context))

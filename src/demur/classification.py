"""From a verdict and its codes to a decision: class, output, obligations and the way on.

`classify` is pure and total over consistent input. The words of the recovery fields come from the
registry alone, so the same decision always has the same words and never ends in a dead end.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from demur.codes.entry import Entry
from demur.codes.loading import default_registry
from demur.codes.meaning import ADVICE_MEANING
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, DecisionOutput, Obligation, RefusalClass, Verdict
from demur.errors import InputError, InputTypeError
from demur.model.decision import Decision, IgnoredGrant, decision_output_for, leading_entry

__all__ = ["Classification", "classify", "make_decision", "missing_grants"]


class Classification(NamedTuple):
    """The refusal class (None: nothing refuses) and what the caller must now do."""

    refusal_class: RefusalClass | None
    decision_output: DecisionOutput


def classify(
    verdict: Verdict | str,
    codes: Iterable[str],
    constraints: Collection[str] = (),
    missing: Collection[str] = (),
    attempts_left: bool = True,  # noqa: FBT001, FBT002 - the signature is part of the contract
    *,
    registry: Registry | None = None,
) -> Classification:
    """Return the class and the decision output of a verdict with its unresolved codes.

    Raises:
        UnknownCodeError: A code is in no registry.
        InconsistentError: Verdict and codes cannot stand together.
    """
    if not isinstance(attempts_left, bool):
        raise InputTypeError.wrong_type("attempts_left", "true or false", attempts_left)
    known = default_registry() if registry is None else registry
    names = unique_names("codes", codes)
    refusal_class = strictest_class(known[code] for code in names)
    output = decision_output_for(
        parse_verdict(verdict),
        refusal_class,
        constraints=bool(unique_names("constraints", constraints)),
        missing=bool(unique_names("missing", missing)),
        attempts_left=attempts_left,
    )
    return Classification(refusal_class, output)


def strictest_class(entries: Iterable[Entry]) -> RefusalClass | None:
    """Return the class that wins among codes: HARD over WORKFLOW over SOFT."""
    # INVARIANT: adding a code can never weaken the class.
    classes = [entry.refusal_class for entry in entries if entry.refusal_class is not None]
    return max(classes, key=lambda refusal_class: refusal_class.strictness, default=None)


def parse_verdict(verdict: str) -> Verdict:
    """Return the verdict of that name."""
    try:
        return Verdict(verdict)
    except ValueError:
        known = ", ".join(Verdict)
        raise InputError(f"unknown verdict `{verdict}`", help=f"one of {known}") from None


def unique_names(field: str, items: Iterable[str]) -> tuple[str, ...]:
    """Return the items as strings in order, each once; a single string is an error."""
    if isinstance(items, str | bytes):
        problem = f"{field} must be a list of strings, not one string"
        raise InputTypeError(problem, help=f"write `[{items!r}]`")
    try:
        unique = tuple(dict.fromkeys(items))
    except TypeError:
        raise InputTypeError.wrong_type(field, "a list of strings", items) from None
    for item in unique:
        if not isinstance(item, str):
            raise InputTypeError.wrong_type(f"an item of {field}", "a string", item)
        if not item.strip():
            raise InputError(f"an item of {field} is empty", help="name it, or leave it out")
    return tuple(str(item) for item in unique)


_NOW = {
    RefusalClass.HARD_BLOCK: "Carry on with the parts of the task that do not depend on this.",
    RefusalClass.WORKFLOW_BLOCK: "Nothing runs yet; the rest of the task can be prepared.",
    RefusalClass.SOFT_BLOCK: "A smaller or safer form of the request can be tried.",
}
_USED_UP = "The attempts are used up: hand the request to a person together with this reason."


class Recovery(NamedTuple):
    """The fields that every output but ALLOW_EXECUTE carries, and the code they are about."""

    reason: str
    what_can_be_done_now: str
    how_to_proceed: str
    next_step: Advice
    leading_code: str


def recovery_for(
    output: DecisionOutput,
    entries: Sequence[Entry],
    *,
    constraints: Sequence[str],
    missing: Sequence[str],
    attempts_left: bool,
    fallback_codes: Collection[str] = (),
    unusable: Mapping[str, str] | None = None,
    can_lift: bool = True,
    approvals: int = 1,
) -> Recovery | None:
    """Return the recovery fields, or None if no code refuses.

    They are about the leading code, with one exception: beside a hard code that only the default
    brought, the advice is that code's, because nothing that lifts the leading code would help.
    `can_lift` is false for a verdict that no grant changes. `approvals` people must grant.
    """
    authority = _authority_sentence(entries, approvals) if can_lift else ""
    lead, strictest = leading_entry(entries, fallback_codes), leading_entry(entries)
    if lead is None or strictest is None:
        return None
    refusal_class = strictest.refusal_class
    advised = strictest if refusal_class is RefusalClass.HARD_BLOCK else lead
    assert advised.refusal_class is not None
    assert advised.advice is not None
    advice = advised.advice
    # INVARIANT: `accept_constraints` is advised only where constraints are named.
    if advice is Advice.ACCEPT_CONSTRAINTS and not constraints:
        advice = Advice.CHANGE_REQUEST
    now, proceed = _NOW[advised.refusal_class], ADVICE_MEANING[advice]
    if output is DecisionOutput.ALLOW_CONSTRAINED:
        advice = Advice.ACCEPT_CONSTRAINTS
        now = f"Proceed within these constraints: {_join_words(constraints)}."
        proceed = "Keep to them for the whole action; ask again for anything beyond."
    elif output is DecisionOutput.NEED_CONTEXT and refusal_class is RefusalClass.SOFT_BLOCK:
        advice = Advice.ACCEPT_CONSTRAINTS
        now = f"These constraints would make it possible: {_join_words(constraints)}."
        proceed = "Accept all of them and send the request again as a continuation of this one."
    elif output is DecisionOutput.NEED_CONTEXT:
        now = _ask_for(missing, unusable or {})
        proceed = f"Send it as a continuation of this request. {authority}".rstrip()
    elif refusal_class is not RefusalClass.HARD_BLOCK and not attempts_left:
        advice = Advice.ESCALATE_OPERATOR
        proceed = _USED_UP
    elif refusal_class is RefusalClass.WORKFLOW_BLOCK:
        proceed = f"{proceed} {authority}".rstrip()
    return Recovery(lead.summary, now, proceed, advice, lead.code)


def _ask_for(missing: Sequence[str], unusable: Mapping[str, str]) -> str:
    absent = [name for name in missing if name not in unusable]
    sentences = [f"Supply what is missing: {_join_words(absent)}."] if absent else []
    return " ".join([*sentences, *(f"{unusable[name]}." for name in missing if name in unusable)])


def _authority_sentence(entries: Sequence[Entry], approvals: int) -> str:
    kinds = sorted({" or ".join(entry.grants) for entry in entries if entry.grants})
    whose = f" from each of {approvals} different people" if approvals > 1 else ""
    if len(kinds) > 1:
        return f"Grants of {_join_words(kinds)}{whose} lift it."
    return f"A grant of {kinds[0]}{whose} lifts it." if kinds else ""


def missing_grants(
    verdict: Verdict | str,
    codes: Iterable[str],
    constraints: Collection[str] = (),
    *,
    registry: Registry | None = None,
) -> tuple[str, ...]:
    """Return the kinds of grants that are missing, for a decision that names nothing missing.

    Empty unless grants, together with the constraints, can lift every code that refuses. A code
    that only time lifts is missing nothing.
    """
    known = default_registry() if registry is None else registry
    entries = [known[code] for code in codes if known[code].refusal_class is not None]
    waiting = [one for one in entries if one.refusal_class is RefusalClass.WORKFLOW_BLOCK]
    others = {one.refusal_class for one in entries} - {RefusalClass.WORKFLOW_BLOCK}
    others_can_bind = others <= ({RefusalClass.SOFT_BLOCK} if constraints else set())
    can_lift = all(
        one.grants and one.decided and one.advice is not Advice.RETRY_LATER for one in waiting
    )
    final = parse_verdict(verdict) in {Verdict.ALLOW, Verdict.ABSTAIN}
    if final or not others_can_bind or not can_lift:
        return ()
    return tuple(dict.fromkeys(" or ".join(one.grants) for one in waiting))


def _join_words(names: Sequence[str]) -> str:
    *most, final = names
    return f"{', '.join(most)} and {final}" if most else final


def make_decision(
    verdict: Verdict | str,
    codes: Iterable[str],
    *,
    constraints: Iterable[str] = (),
    missing: Iterable[str] = (),
    attempts_left: bool = True,
    requester: str | None = None,
    scope: Mapping[str, str] | None = None,
    accepted: Iterable[str] = (),
    resolved_codes: Iterable[str] = (),
    lifted_by: Iterable[str] = (),
    ignored_grants: Iterable[IgnoredGrant] = (),
    obligations: Iterable[Obligation] = (),
    fallback_codes: Iterable[str] = (),
    unusable: Mapping[str, str] | None = None,
    approvals: int = 1,
    registry: Registry | None = None,
) -> Decision:
    """Return the decision for a verdict and its codes.

    `obligations` hold in addition to those of the codes. `fallback_codes` are those of the codes
    that came only from the policy's default: any other code leads before them. `unusable` says of
    fields in `missing` why their value cannot be used. `approvals` is how many different people
    must grant what lifts a code.

    Raises:
        UnknownCodeError: A code is in no registry.
        InconsistentError: Verdict and codes cannot stand together.
    """
    known = default_registry() if registry is None else registry
    names, limits = unique_names("codes", codes), unique_names("constraints", constraints)
    gaps = unique_names("missing", missing)
    resolved = unique_names("resolved_codes", resolved_codes)
    refusal_class, output = classify(verdict, names, limits, gaps, attempts_left, registry=known)
    entries = [known[code] for code in names]
    fallback = tuple(
        code for code in unique_names("fallback_codes", fallback_codes) if code in names
    )
    recovery = recovery_for(
        output,
        entries,
        constraints=limits,
        missing=gaps,
        attempts_left=attempts_left,
        fallback_codes=fallback,
        unusable=unusable,
        can_lift=verdict != Verdict.ABSTAIN,
        approvals=approvals,
    )
    # INVARIANT: an obligation holds whatever else matched, even after its code was lifted.
    owed = {one for code in (*names, *resolved) for one in known[code].obligations}
    owed.update(obligations)
    return Decision(
        verdict=parse_verdict(verdict),
        reason_codes=names,
        refusal_class=refusal_class,
        decision_output=output,
        constraints=limits,
        missing=gaps,
        attempts_left=attempts_left,
        accepted=unique_names("accepted", accepted),
        resolved_codes=resolved,
        lifted_by=unique_names("lifted_by", lifted_by),
        ignored_grants=tuple(ignored_grants),
        obligations=tuple(one for one in Obligation if one in owed),
        requester=requester,
        scope=_check_scope(scope),
        fallback_codes=fallback,
        unusable=dict(unusable or {}),
        approvals=approvals,
        **({} if recovery is None else recovery._asdict()),
    )


def _check_scope(scope: Mapping[str, str] | None) -> dict[str, str]:
    if scope is None:
        return {}
    if not isinstance(scope, Mapping):
        raise InputTypeError.wrong_type("a scope", "a mapping of strings", scope)
    for pair in scope.items():
        if not all(isinstance(word, str) for word in pair):
            raise InputTypeError(f"a scope holds strings, not {pair!r}")
    return dict(scope)

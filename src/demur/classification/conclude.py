"""Make a decision from a verdict and its codes, with class, obligations and next step."""

from collections.abc import Iterable, Mapping

from demur.classification.classify import parse_verdict, classify, unique_names
from demur.classification.recovery import recovery_for
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Obligation, Verdict
from demur.errors import InputTypeError
from demur.model.decision import Decision, IgnoredGrant

__all__ = ["make_decision"]


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
    registry: Registry | None = None,
) -> Decision:
    """Return the decision for a verdict and its codes.

    `obligations` hold in addition to those of the codes.

    Raises:
        UnknownCodeError: A code is not registered.
        InconsistentError: Verdict and codes cannot stand together.
    """
    known = default_registry() if registry is None else registry
    names, limits = unique_names("codes", codes), unique_names("constraints", constraints)
    gaps = unique_names("missing", missing)
    resolved = unique_names("resolved_codes", resolved_codes)
    refusal_class, output = classify(verdict, names, limits, gaps, attempts_left, registry=known)
    entries = [known[code] for code in names]
    way_on = recovery_for(
        output, entries, constraints=limits, missing=gaps, attempts_left=attempts_left
    )
    # INVARIANT: an obligation holds whatever else matched, even after its code was lifted.
    duties = {duty for code in (*names, *resolved) for duty in known[code].obligations}
    duties.update(obligations)
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
        obligations=tuple(duty for duty in Obligation if duty in duties),
        requester=requester,
        scope=_check_scope(scope),
        **({} if way_on is None else way_on._asdict()),
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

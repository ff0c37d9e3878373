"""Classify a verdict and its codes: a pure function, total over consistent input."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from demur.codes.default import default_registry
from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.errors import InputError, InputTypeError
from demur.model.outcome import decision_output_for

__all__ = ["Classification", "classify", "strictest_class", "strictest_verdict"]


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
        UnknownCodeError: A code is not registered.
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


def strictest_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that wins where several apply: DENY, ABSTAIN, ESCALATE, ALLOW."""
    # INVARIANT: adding a verdict can never relax the result.
    return max(verdicts, key=lambda verdict: verdict.precedence, default=Verdict.ALLOW)


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
        raise InputTypeError(
            f"{field} must be a list of strings, not one string", help=f"write `[{items!r}]`"
        )
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

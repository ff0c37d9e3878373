"""A decision: verdict, class, output and the way on. An inconsistent one cannot be built."""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

import msgspec

from demur.codes.entry import Entry
from demur.codes.loading import registry_or_core
from demur.codes.vocabulary import Advice, DecisionOutput, Obligation, RefusalClass, Verdict
from demur.errors import InconsistentError


class Outcome(StrEnum):
    """What a decision means for a person: the first thing that every page and command shows."""

    ALLOWED = "allowed"
    ALLOWED_WITH_LIMITS = "allowed_with_limits"
    NEEDS_SOMETHING = "needs_something"
    REFUSED = "refused"
    COULD_NOT_JUDGE = "could_not_judge"

    @classmethod
    def from_output(cls, verdict: str, output: str) -> "Outcome":
        """Return the outcome of a verdict and its output; an unknown output refuses."""
        # INVARIANT: an outcome allows if and only if the verdict is ALLOW.
        if verdict == Verdict.ABSTAIN:
            return cls.COULD_NOT_JUDGE
        return _OUTCOMES.get(output, cls.REFUSED)

    @property
    def allows(self) -> bool:
        """Whether the action may run."""
        return self in {Outcome.ALLOWED, Outcome.ALLOWED_WITH_LIMITS}

    @property
    def label(self) -> str:
        """The outcome in words, like `needs something`."""
        return self.replace("_", " ")

    @property
    def sentence(self) -> str:
        """One sentence: who must do what next."""
        return _OUTCOME_SENTENCES[self]


_OUTCOMES: dict[str, Outcome] = {
    DecisionOutput.ALLOW_EXECUTE: Outcome.ALLOWED,
    DecisionOutput.ALLOW_CONSTRAINED: Outcome.ALLOWED_WITH_LIMITS,
    DecisionOutput.NEED_CONTEXT: Outcome.NEEDS_SOMETHING,
    DecisionOutput.REFUSE_WITH_PATH: Outcome.REFUSED,
}
_OUTCOME_SENTENCES = {
    Outcome.ALLOWED: "The caller may run the action as it is.",
    Outcome.ALLOWED_WITH_LIMITS: "The caller may run the action within the limits that are named.",
    Outcome.NEEDS_SOMETHING: (
        "Nothing runs yet; the caller must supply or accept what is named and ask again."
    ),
    Outcome.REFUSED: "Nothing runs, and nobody was asked; the caller must not repeat it unchanged.",
    Outcome.COULD_NOT_JUDGE: (
        "Nothing runs; the caller must correct the request, or the operator mend the fault."
    ),
}


def decision_output_for(
    verdict: Verdict,
    refusal_class: RefusalClass | None,
    *,
    constraints: bool = False,
    missing: bool = False,
    attempts_left: bool = True,
) -> DecisionOutput:
    """Return the output for a verdict and the strictest unresolved class.

    `constraints` and `missing` say whether any can be named.

    Raises:
        InconsistentError: The combination has no meaning.
    """
    # INVARIANT: the output is ALLOW_* if and only if the verdict is ALLOW.
    if verdict is Verdict.ALLOW:
        return _allowed_output(refusal_class, constraints=constraints)
    if refusal_class is None:
        raise InconsistentError(
            f"{verdict} needs at least one reason code that refuses",
            help="name the reason; a block nobody can explain is not a decision",
        )
    can_ask = {
        RefusalClass.HARD_BLOCK: False,
        RefusalClass.WORKFLOW_BLOCK: missing,
        RefusalClass.SOFT_BLOCK: constraints,
    }[refusal_class]
    if can_ask and attempts_left:
        return DecisionOutput.NEED_CONTEXT
    return DecisionOutput.REFUSE_WITH_PATH


def _allowed_output(refusal_class: RefusalClass | None, *, constraints: bool) -> DecisionOutput:
    if refusal_class is None:
        return DecisionOutput.ALLOW_EXECUTE
    if refusal_class is not RefusalClass.SOFT_BLOCK:
        raise InconsistentError(f"ALLOW cannot stand beside an unresolved {refusal_class}")
    if not constraints:
        raise InconsistentError(
            "ALLOW with a SOFT_BLOCK needs the constraints that make it safe",
            help="name the constraints, or leave the soft code out",
        )
    return DecisionOutput.ALLOW_CONSTRAINED


_SEVERITIES = ("info", "low", "medium", "high", "critical")


def leading_entry(entries: Iterable[Entry], fallback_codes: Collection[str] = ()) -> Entry | None:
    """Return the entry of the leading code, or None if no code refuses.

    `fallback_codes` came only from the default of the policy.
    """
    # INVARIANT: any other code leads before a fallback code.
    ranked = [
        (
            entry.code in fallback_codes,
            -entry.refusal_class.strictness,
            -_SEVERITIES.index(entry.severity),
            entry.code,
            entry,
        )
        for entry in entries
        if entry.refusal_class is not None
    ]
    return min(ranked)[-1] if ranked else None


_RECOVERY = ("reason", "what_can_be_done_now", "how_to_proceed", "next_step")


class IgnoredGrant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A grant that lifted nothing, and why; `still_needed` people must grant the same."""

    grant_id: str
    why: str
    still_needed: int = 0


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision and its recovery fields. Build one with `make_decision`.

    `reason_codes` are in force. `resolved_codes` were lifted by grants or bound by accepted
    constraints; a bound code stays in force as their reason. `leading_code` is the code that the
    recovery fields are about, None if no code refuses; `fallback_codes` came only from the
    policy's default. `approvals` different people must grant what lifts a code. `unusable` says of
    fields in `missing` that are there why they cannot be used. A grant must cover `requester` and
    `scope`.
    """

    verdict: Verdict
    reason_codes: tuple[str, ...]
    refusal_class: RefusalClass | None
    decision_output: DecisionOutput
    constraints: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    attempts_left: bool = True
    accepted: tuple[str, ...] = ()
    resolved_codes: tuple[str, ...] = ()
    lifted_by: tuple[str, ...] = ()
    ignored_grants: tuple[IgnoredGrant, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    requester: str | None = None
    scope: Mapping[str, str] = {}
    reason: str | None = None
    what_can_be_done_now: str | None = None
    how_to_proceed: str | None = None
    next_step: Advice | None = None
    leading_code: str | None = None
    fallback_codes: tuple[str, ...] = ()
    unusable: Mapping[str, str] = {}
    approvals: int = 1

    def __post_init__(self) -> None:
        expected = decision_output_for(
            self.verdict,
            self.refusal_class,
            constraints=bool(self.constraints),
            missing=bool(self.missing),
            attempts_left=self.attempts_left,
        )
        if self.decision_output is not expected:
            raise InconsistentError(
                f"{self.verdict} with {self.refusal_class or 'no refusal class'} "
                f"is {expected}, not {self.decision_output}"
            )
        self._check_class()
        # INVARIANT: every output but ALLOW_EXECUTE carries all recovery fields.
        if expected is not DecisionOutput.ALLOW_EXECUTE:
            for field in _RECOVERY:
                if not getattr(self, field):
                    raise InconsistentError(f"{expected} without `{field}` is a dead end")

    @property
    def outcome(self) -> Outcome:
        """What the decision means, in one word."""
        return Outcome.from_output(self.verdict, self.decision_output)

    @property
    def outcome_sentence(self) -> str:
        """One sentence: who must do what next."""
        return self.outcome.sentence

    def _check_class(self) -> None:
        """Refuse a class that the codes do not have; unknown codes may have any class."""
        if self.refusal_class is not None and not self.reason_codes:
            raise InconsistentError(f"{self.refusal_class} needs the reason codes it comes from")
        known = registry_or_core()
        entries = [known.get(code) for code in self.reason_codes]
        classes = [entry.refusal_class for entry in entries if entry is not None]
        strictest = max((c for c in classes if c is not None), key=_class_strictness, default=None)
        claimed, expected = _class_strictness(self.refusal_class), _class_strictness(strictest)
        if claimed < expected or (claimed > expected and None not in entries):
            raise InconsistentError(
                f"the class of {', '.join(self.reason_codes) or 'no codes'} is "
                f"{strictest or 'none'}, not {self.refusal_class or 'none'}"
            )


def _class_strictness(refusal_class: RefusalClass | None) -> int:
    return 0 if refusal_class is None else refusal_class.strictness

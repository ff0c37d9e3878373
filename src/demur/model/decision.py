"""A decision: verdict, class, output, and the way on. An inconsistent one cannot be built."""

from collections.abc import Mapping

import msgspec

from demur.codes.vocabulary import Advice, DecisionOutput, Obligation, RefusalClass, Verdict
from demur.errors import InconsistentError
from demur.model.outcome import outcome

__all__ = ["Decision", "IgnoredGrant"]

_RECOVERY = ("reason", "what_can_be_done_now", "how_to_proceed", "next_step")


class IgnoredGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A grant that lifted nothing, and why."""

    grant_id: str
    why: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided and how to go on. Build one with `conclude`.

    `reason_codes` are in force, `resolved_codes` were lifted by grants or accepted
    constraints. `requester` and `scope` say whose request it is and what it touches:
    a grant must cover both.
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

    def __post_init__(self) -> None:
        expected = outcome(
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
        if self.refusal_class is not None and not self.reason_codes:
            raise InconsistentError(f"{self.refusal_class} needs the reason codes it comes from")
        # INVARIANT: every output but ALLOW_EXECUTE carries all recovery fields.
        if expected is not DecisionOutput.ALLOW_EXECUTE:
            for field in _RECOVERY:
                if not getattr(self, field):
                    raise InconsistentError(f"{expected} without `{field}` is a dead end")

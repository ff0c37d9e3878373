"""The closed vocabularies of the contract. Only reason codes are open.

Members are strings: they compare, print and serialise as their values.
"""

from collections.abc import Iterable
from enum import StrEnum


class RefusalClass(StrEnum):
    """May it be lifted? Never, by supplying what is missing, or by accepting constraints."""

    HARD_BLOCK = "HARD_BLOCK"
    WORKFLOW_BLOCK = "WORKFLOW_BLOCK"
    SOFT_BLOCK = "SOFT_BLOCK"

    @property
    def strictness(self) -> int:
        """The rank of the class: a higher one wins where several apply."""
        return _STRICTNESS[self]


_STRICTNESS = {
    RefusalClass.SOFT_BLOCK: 1,
    RefusalClass.WORKFLOW_BLOCK: 2,
    RefusalClass.HARD_BLOCK: 3,
}


class Verdict(StrEnum):
    """The conclusion of the engine. ABSTAIN could not judge, and never executes."""

    ALLOW = "ALLOW"
    ESCALATE = "ESCALATE"
    ABSTAIN = "ABSTAIN"
    DENY = "DENY"

    @property
    def precedence(self) -> int:
        """The rank of the verdict: a higher one wins where several apply."""
        return _PRECEDENCE[self]


_PRECEDENCE = {Verdict.ALLOW: 0, Verdict.ESCALATE: 1, Verdict.ABSTAIN: 2, Verdict.DENY: 3}


def strictest_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that wins where several apply: DENY, ABSTAIN, ESCALATE, ALLOW."""
    # INVARIANT: adding a verdict can never relax the result.
    return max(verdicts, key=_PRECEDENCE.__getitem__, default=Verdict.ALLOW)


class DecisionOutput(StrEnum):
    """The duty of the caller."""

    ALLOW_EXECUTE = "ALLOW_EXECUTE"
    ALLOW_CONSTRAINED = "ALLOW_CONSTRAINED"
    NEED_CONTEXT = "NEED_CONTEXT"
    REFUSE_WITH_PATH = "REFUSE_WITH_PATH"


class Advice(StrEnum):
    """The next step a machine can take, apart from code and class."""

    DO_NOT_RETRY = "do_not_retry"
    CHANGE_REQUEST = "change_request"
    PROVIDE_CONTEXT = "provide_context"
    ACCEPT_CONSTRAINTS = "accept_constraints"
    REQUEST_APPROVAL = "request_approval"
    RETRY_LATER = "retry_later"
    RESET_CONTEXT = "reset_context"
    USE_OTHER_MODEL = "use_other_model"
    ESCALATE_OPERATOR = "escalate_operator"


class Effect(StrEnum):
    """Whether a code speaks against an action or for it."""

    REFUSE = "refuse"
    ALLOW = "allow"


class Severity(StrEnum):
    """How much attention the code deserves on a dashboard."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class RetryScope(StrEnum):
    """How far a refusal reaches: this call, every variant of it, or the whole session."""

    CALL = "call"
    RULE = "rule"
    SESSION = "session"


class Stability(StrEnum):
    """How firmly a code is promised."""

    PREVIEW = "preview"
    STABLE = "stable"
    DEPRECATED = "deprecated"


class GrantKind(StrEnum):
    """The help that an authority can supply. A workflow code names the kinds that lift it."""

    APPROVAL = "approval"
    AUTHORIZATION = "authorization"
    CONTEXT = "context"
    QUOTA = "quota"
    SCOPE = "scope"
    TOOL = "tool"


class Obligation(StrEnum):
    """What must happen wherever the code appears, lifted or not."""

    CRISIS_RESOURCES = "crisis_resources"
    HUMAN_REVIEW = "human_review"


class Surface(StrEnum):
    """The place of the reason in the stack."""

    INPUT = "input"
    OUTPUT = "output"
    TOOL_CALL = "tool_call"
    TOOL_LOOP = "tool_loop"
    TOOL_RESULT = "tool_result"
    RETRIEVAL = "retrieval"
    SKILL = "skill"
    COMPACTION = "compaction"
    CODE_EXECUTION = "code_execution"
    RATE = "rate"
    POLICY = "policy"
    MEMORY = "memory"
    MODEL = "model"
    RUNTIME = "runtime"

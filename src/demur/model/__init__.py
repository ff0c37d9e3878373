"""Values only: refusals, decisions, records and grants. Frozen, and never inconsistent."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.model.decision import Decision, IgnoredGrant, Outcome
    from demur.model.finding import Action, Finding, Span
    from demur.model.grant import Grant
    from demur.model.next_steps import HelpSource, NextStep, RequiredChange, ResetScope, next_step
    from demur.model.record import DecisionRecord, Explanation, ModelRef
    from demur.model.refusal import Refusal, RefusalSource

__all__ = [
    "Action",
    "Decision",
    "DecisionRecord",
    "Explanation",
    "Finding",
    "Grant",
    "HelpSource",
    "IgnoredGrant",
    "ModelRef",
    "NextStep",
    "Outcome",
    "Refusal",
    "RefusalSource",
    "RequiredChange",
    "ResetScope",
    "Span",
    "next_step",
]

_HOMES = {
    "demur.model.decision": "Decision IgnoredGrant Outcome",
    "demur.model.finding": "Action Finding Span",
    "demur.model.grant": "Grant",
    "demur.model.next_steps": "HelpSource NextStep RequiredChange ResetScope next_step",
    "demur.model.record": "DecisionRecord Explanation ModelRef",
    "demur.model.refusal": "Refusal RefusalSource",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)

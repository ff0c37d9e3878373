"""Enforcement in an agent: check prompts, tool calls, results and answers, and refuse in words."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.enforce.approval_wait import ApprovalAnswer
    from demur.enforce.context import Call, CallContext, Step, Steps, adrive, drive
    from demur.enforce.describe import DescribeCall, describe_call, extract_texts, to_json_value
    from demur.enforce.enforcer import Enforcer
    from demur.enforce.generation import (
        AsyncSafeStream,
        GenerateOptions,
        SafeStream,
        asafe_generate,
        asafe_stream,
        safe_generate,
        safe_stream,
    )
    from demur.enforce.history import CallHistories, LocalCallHistories
    from demur.enforce.opening import (
        build_enforcer,
        open_enforcer,
        read_agent_policy,
        resolve_links,
    )
    from demur.enforce.result import (
        Approval,
        CheckResult,
        GrantFor,
        GuardedAnswer,
        Refused,
        acollect_grants,
        collect_grants,
    )
    from demur.enforce.streams import AnswerStream
    from demur.gate.config import Config
    from demur.gate.guard_settings import GuardSettings, ToolSettings
    from demur.gate.monitor import GuardrailMonitor
    from demur.gate.pipeline import GuardPipeline, GuardStep, standard_pipeline
    from demur.gate.rate import RateGuard, open_limiter

__all__ = [
    "AnswerStream",
    "Approval",
    "ApprovalAnswer",
    "AsyncSafeStream",
    "Call",
    "CallContext",
    "CallHistories",
    "CheckResult",
    "Config",
    "DescribeCall",
    "Enforcer",
    "GenerateOptions",
    "GrantFor",
    "GuardPipeline",
    "GuardSettings",
    "GuardStep",
    "GuardedAnswer",
    "GuardrailMonitor",
    "LocalCallHistories",
    "RateGuard",
    "Refused",
    "SafeStream",
    "Step",
    "Steps",
    "ToolSettings",
    "acollect_grants",
    "adrive",
    "asafe_generate",
    "asafe_stream",
    "build_enforcer",
    "collect_grants",
    "describe_call",
    "drive",
    "extract_texts",
    "open_enforcer",
    "open_limiter",
    "read_agent_policy",
    "resolve_links",
    "safe_generate",
    "safe_stream",
    "standard_pipeline",
    "to_json_value",
]

_HOMES = {
    "demur.gate.monitor": "GuardrailMonitor",
    "demur.gate.rate": "RateGuard open_limiter",
    "demur.gate.pipeline": "GuardPipeline GuardStep standard_pipeline",
    "demur.gate.config": "Config",
    "demur.gate.guard_settings": "GuardSettings ToolSettings",
    "demur.enforce.approval_wait": "ApprovalAnswer",
    "demur.enforce.context": "Call CallContext Step Steps adrive drive",
    "demur.enforce.describe": "DescribeCall describe_call extract_texts to_json_value",
    "demur.enforce.enforcer": "Enforcer",
    "demur.enforce.generation": (
        "AsyncSafeStream GenerateOptions SafeStream asafe_generate asafe_stream "
        "safe_generate safe_stream"
    ),
    "demur.enforce.history": "CallHistories LocalCallHistories",
    "demur.enforce.opening": "build_enforcer open_enforcer read_agent_policy resolve_links",
    "demur.enforce.result": (
        "Approval CheckResult GrantFor GuardedAnswer Refused acollect_grants collect_grants"
    ),
    "demur.enforce.streams": "AnswerStream",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)

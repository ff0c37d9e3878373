"""From a request to a durable decision: guards, policy, memory, authority and storage."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.gate.approval_queue import (
        ApprovalError,
        ApprovalLimits,
        ApprovalQueue,
        ApprovalResult,
    )
    from demur.gate.approvals import ApprovalSettings
    from demur.gate.config import (
        Config,
        close_gates,
        decide,
        find_config,
        load_config,
        open_configured_store,
        open_gate,
    )
    from demur.gate.excerpt import Utterance
    from demur.gate.gate import Gate, Sink
    from demur.gate.monitor import (
        Activation,
        GuardrailMonitor,
        GuardReport,
        GuardThresholds,
        Monitor,
    )
    from demur.gate.pipeline import GuardPipeline, GuardStep, standard_pipeline
    from demur.gate.rate import (
        Limiter,
        LimiterUnavailableError,
        LocalLimiter,
        RateGuard,
        RateRequest,
        open_limiter,
    )
    from demur.gate.redaction import PROFILES, RedactionProfile
    from demur.gate.scoring import PipelineResult

__all__ = [
    "PROFILES",
    "Activation",
    "ApprovalError",
    "ApprovalLimits",
    "ApprovalQueue",
    "ApprovalResult",
    "ApprovalSettings",
    "Config",
    "Gate",
    "GuardPipeline",
    "GuardReport",
    "GuardStep",
    "GuardThresholds",
    "GuardrailMonitor",
    "Limiter",
    "LimiterUnavailableError",
    "LocalLimiter",
    "Monitor",
    "PipelineResult",
    "RateGuard",
    "RateRequest",
    "RedactionProfile",
    "Sink",
    "Utterance",
    "close_gates",
    "decide",
    "find_config",
    "load_config",
    "open_configured_store",
    "open_gate",
    "open_limiter",
    "standard_pipeline",
]

_HOMES = {
    "demur.gate.approval_queue": "ApprovalError ApprovalLimits ApprovalQueue ApprovalResult",
    "demur.gate.approvals": "ApprovalSettings",
    "demur.gate.config": (
        "Config close_gates decide find_config load_config open_configured_store open_gate"
    ),
    "demur.gate.excerpt": "Utterance",
    "demur.gate.gate": "Gate Sink",
    "demur.gate.monitor": "Activation GuardReport GuardThresholds GuardrailMonitor Monitor",
    "demur.gate.pipeline": "GuardPipeline GuardStep standard_pipeline",
    "demur.gate.rate": (
        "Limiter LimiterUnavailableError LocalLimiter RateGuard RateRequest open_limiter"
    ),
    "demur.gate.redaction": "PROFILES RedactionProfile",
    "demur.gate.scoring": "PipelineResult",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)

"""demur: the refusal contract for AI agents.

One typed vocabulary of reasons, spoken by every guard, policy, model and provider.
Names are loaded when first used, so `import demur` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.classification import Classification, classify, make_decision
    from demur.grants import (
        KeyRing,
        SigningKey,
        TrustedKey,
        check_grant,
        resolve,
        sign_grant,
    )
    from demur.codes.entry import Entry
    from demur.codes.meaning import explain
    from demur.codes.loading import default_registry
    from demur.codes.reason_code import ReasonCode
    from demur.codes.refusal_line import (
        KNOWN_CODES,
        FoundRefusal,
        ParsedRefusal,
        find_refusals,
        format_refusal,
        parse_refusal,
    )
    from demur.codes.registry import Registry
    from demur.codes.vocabulary import (
        Advice,
        DecisionOutput,
        GrantKind,
        RefusalClass,
        Severity,
        Surface,
        Verdict,
    )
    from demur.detect.detector import (
        RefusalKind,
        RefusalSignal,
        detect_batch,
        detect_many,
        detect_refusal,
    )
    from demur.enforce.context import CallContext
    from demur.enforce.enforcer import Enforcer, open_enforcer
    from demur.enforce.result import CheckResult, GuardedAnswer, Refused
    from demur.enforce.generation import asafe_generate, asafe_stream, safe_generate, safe_stream
    from demur.errors import DemurError
    from demur.evals.measure import measure_safety_utility
    from demur.gate.config import Config, decide
    from demur.gate.gate import Gate
    from demur.gate.monitor import GuardrailMonitor
    from demur.gate.pipeline import GuardPipeline, GuardStep, standard_pipeline
    from demur.gate.rate import RateGuard, open_limiter
    from demur.guards.rate import RateLimit
    from demur.memory.recall import MemorySettings
    from demur.model.decision import Decision
    from demur.model.finding import Finding, Span
    from demur.model.grant import Grant
    from demur.model.next_steps import NextStep, next_step
    from demur.model.record import DecisionRecord
    from demur.model.refusal import Refusal, RefusalSource
    from demur.policy.loader import load_policy, parse_policy
    from demur.providers.normalization import StreamReader, normalize
    from demur.respond.graceful import compose, view
    from demur.respond.lint import lint_refusal
    from demur.respond.template_file import load_templates
    from demur.respond.words import GracefulRefusal
    from demur.store.opening import open_store
    from demur.store.store import Store
    from demur.version import __version__

__all__ = [
    "KNOWN_CODES",
    "Advice",
    "Classification",
    "Config",
    "Decision",
    "DecisionOutput",
    "DecisionRecord",
    "DemurError",
    "Enforcer",
    "Entry",
    "Finding",
    "FoundRefusal",
    "Gate",
    "GuardedAnswer",
    "GracefulRefusal",
    "Grant",
    "GrantKind",
    "GuardStep",
    "GuardrailMonitor",
    "KeyRing",
    "MemorySettings",
    "NextStep",
    "CallContext",
    "ParsedRefusal",
    "GuardPipeline",
    "RateGuard",
    "RateLimit",
    "ReasonCode",
    "Refusal",
    "RefusalClass",
    "RefusalKind",
    "RefusalSignal",
    "RefusalSource",
    "Refused",
    "Registry",
    "CheckResult",
    "Severity",
    "SigningKey",
    "Span",
    "Store",
    "StreamReader",
    "Surface",
    "TrustedKey",
    "Verdict",
    "__version__",
    "asafe_generate",
    "asafe_stream",
    "classify",
    "compose",
    "make_decision",
    "decide",
    "default_registry",
    "detect_batch",
    "detect_many",
    "detect_refusal",
    "explain",
    "find_refusals",
    "format_refusal",
    "lint_refusal",
    "load_policy",
    "load_templates",
    "measure_safety_utility",
    "next_step",
    "normalize",
    "open_enforcer",
    "open_limiter",
    "open_store",
    "parse_policy",
    "parse_refusal",
    "resolve",
    "safe_generate",
    "safe_stream",
    "sign_grant",
    "standard_pipeline",
    "view",
    "check_grant",
]

_HOMES = {
    "demur.classification": (
        "Classification",
        "classify",
        "make_decision",
    ),
    "demur.grants": (
        "sign_grant",
        "check_grant",
        "KeyRing",
        "SigningKey",
        "TrustedKey",
        "resolve",
    ),
    "demur.codes.loading": ("default_registry",),
    "demur.codes.entry": ("Entry",),
    "demur.codes.meaning": ("explain",),
    "demur.codes.refusal_line": (
        "FoundRefusal",
        "find_refusals",
        "KNOWN_CODES",
        "ParsedRefusal",
        "format_refusal",
        "parse_refusal",
    ),
    "demur.codes.reason_code": ("ReasonCode",),
    "demur.codes.registry": ("Registry",),
    "demur.codes.vocabulary": (
        "Advice",
        "DecisionOutput",
        "GrantKind",
        "RefusalClass",
        "Severity",
        "Surface",
        "Verdict",
    ),
    "demur.detect.detector": (
        "detect_batch",
        "detect_many",
        "detect_refusal",
        "RefusalKind",
        "RefusalSignal",
    ),
    "demur.enforce.enforcer": (
        "Enforcer",
        "open_enforcer",
    ),
    "demur.enforce.result": (
        "GuardedAnswer",
        "Refused",
        "CheckResult",
    ),
    "demur.enforce.context": ("CallContext",),
    "demur.enforce.generation": (
        "asafe_generate",
        "asafe_stream",
        "safe_generate",
        "safe_stream",
    ),
    "demur.errors": ("DemurError",),
    "demur.evals.measure": ("measure_safety_utility",),
    "demur.gate.config": (
        "Config",
        "decide",
    ),
    "demur.gate.gate": ("Gate",),
    "demur.gate.monitor": ("GuardrailMonitor",),
    "demur.gate.pipeline": (
        "GuardStep",
        "GuardPipeline",
        "standard_pipeline",
    ),
    "demur.gate.rate": (
        "RateGuard",
        "open_limiter",
    ),
    "demur.guards.rate": ("RateLimit",),
    "demur.memory.recall": ("MemorySettings",),
    "demur.model.decision": ("Decision",),
    "demur.model.finding": (
        "Finding",
        "Span",
    ),
    "demur.model.grant": ("Grant",),
    "demur.model.next_steps": (
        "NextStep",
        "next_step",
    ),
    "demur.model.record": ("DecisionRecord",),
    "demur.model.refusal": (
        "Refusal",
        "RefusalSource",
    ),
    "demur.policy.loader": (
        "load_policy",
        "parse_policy",
    ),
    "demur.providers.normalization": (
        "normalize",
        "StreamReader",
    ),
    "demur.respond.graceful": (
        "compose",
        "view",
    ),
    "demur.respond.words": ("GracefulRefusal",),
    "demur.respond.lint": ("lint_refusal",),
    "demur.respond.template_file": ("load_templates",),
    "demur.store.opening": ("open_store",),
    "demur.store.store": ("Store",),
    "demur.version": ("__version__",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    if name not in _HOME_OF:
        message = f"module 'demur' has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})

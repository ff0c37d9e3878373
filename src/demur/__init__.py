"""demur: the refusal contract for AI agents.

One typed vocabulary of reasons, spoken by every guard, policy, model and provider.
Names are loaded when first used, so `import demur` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.classification.classify import Classification, classify
    from demur.classification.conclude import make_decision
    from demur.classification.grants import sign_grant, check_grant
    from demur.classification.keys import KeyRing, SigningKey, TrustedKey
    from demur.classification.resolve import resolve
    from demur.codes.default import default_registry
    from demur.codes.entry import Entry
    from demur.codes.explain import explain
    from demur.codes.find import FoundRefusal, find_refusals
    from demur.codes.line import KNOWN_CODES, ParsedRefusal, format_refusal, parse_refusal
    from demur.codes.reason_code import ReasonCode
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
    from demur.detect.arrow import detect_batch
    from demur.detect.detector import detect_many, detect_refusal
    from demur.detect.signal import RefusalKind, RefusalSignal
    from demur.enforce.enforcer import Enforcer
    from demur.enforce.generated import GuardedAnswer
    from demur.enforce.occasion import CallContext
    from demur.enforce.open_enforcer import open_enforcer
    from demur.enforce.ruling import Refused, CheckResult
    from demur.enforce.safe_generate import asafe_generate, asafe_stream, safe_generate, safe_stream
    from demur.errors import DemurError
    from demur.evals.measure import measure_safety_utility
    from demur.gate.config import Config
    from demur.gate.decide import decide
    from demur.gate.gate import Gate
    from demur.gate.monitor import GuardrailMonitor
    from demur.gate.pipeline import GuardStep, GuardPipeline
    from demur.gate.rate_guard import RateGuard, open_limiter
    from demur.gate.standard import standard_pipeline
    from demur.guards.rate.limits import RateLimit
    from demur.memory.settings import MemorySettings
    from demur.model.decision import Decision
    from demur.model.finding import Finding, Span
    from demur.model.grant import Grant
    from demur.model.next_step import NextStep, next_step
    from demur.model.record import DecisionRecord
    from demur.model.refusal import Refusal
    from demur.model.refusal_source import RefusalSource
    from demur.policy.loader import load_policy, parse_policy
    from demur.providers.normalize import normalize
    from demur.providers.streams import StreamReader
    from demur.respond.compose import compose
    from demur.respond.graceful import GracefulRefusal
    from demur.respond.lint import lint_refusal
    from demur.respond.loading import load_templates
    from demur.respond.views import view
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
    "demur.classification.classify": ("Classification", "classify"),
    "demur.classification.conclude": ("make_decision",),
    "demur.classification.grants": ("sign_grant", "check_grant"),
    "demur.classification.keys": ("KeyRing", "SigningKey", "TrustedKey"),
    "demur.classification.resolve": ("resolve",),
    "demur.codes.default": ("default_registry",),
    "demur.codes.entry": ("Entry",),
    "demur.codes.explain": ("explain",),
    "demur.codes.find": ("FoundRefusal", "find_refusals"),
    "demur.codes.line": ("KNOWN_CODES", "ParsedRefusal", "format_refusal", "parse_refusal"),
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
    "demur.detect.arrow": ("detect_batch",),
    "demur.detect.detector": ("detect_many", "detect_refusal"),
    "demur.detect.signal": ("RefusalKind", "RefusalSignal"),
    "demur.enforce.enforcer": ("Enforcer",),
    "demur.enforce.generated": ("GuardedAnswer",),
    "demur.enforce.occasion": ("CallContext",),
    "demur.enforce.open_enforcer": ("open_enforcer",),
    "demur.enforce.ruling": ("Refused", "CheckResult"),
    "demur.enforce.safe_generate": (
        "asafe_generate",
        "asafe_stream",
        "safe_generate",
        "safe_stream",
    ),
    "demur.errors": ("DemurError",),
    "demur.evals.measure": ("measure_safety_utility",),
    "demur.gate.config": ("Config",),
    "demur.gate.decide": ("decide",),
    "demur.gate.gate": ("Gate",),
    "demur.gate.monitor": ("GuardrailMonitor",),
    "demur.gate.pipeline": ("GuardStep", "GuardPipeline"),
    "demur.gate.rate_guard": ("RateGuard", "open_limiter"),
    "demur.gate.standard": ("standard_pipeline",),
    "demur.guards.rate.limits": ("RateLimit",),
    "demur.memory.settings": ("MemorySettings",),
    "demur.model.decision": ("Decision",),
    "demur.model.finding": ("Finding", "Span"),
    "demur.model.grant": ("Grant",),
    "demur.model.next_step": ("NextStep", "next_step"),
    "demur.model.record": ("DecisionRecord",),
    "demur.model.refusal": ("Refusal",),
    "demur.model.refusal_source": ("RefusalSource",),
    "demur.policy.loader": ("load_policy", "parse_policy"),
    "demur.providers.normalize": ("normalize",),
    "demur.providers.streams": ("StreamReader",),
    "demur.respond.compose": ("compose",),
    "demur.respond.graceful": ("GracefulRefusal",),
    "demur.respond.lint": ("lint_refusal",),
    "demur.respond.loading": ("load_templates",),
    "demur.respond.views": ("view",),
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

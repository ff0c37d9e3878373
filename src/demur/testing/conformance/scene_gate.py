"""The gate and the guards of a scenario: real ones, of which some are made to fail."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardStep, GuardPipeline
from demur.gate.rate_guard import RateGuard
from demur.guards.builtin import load_builtin
from demur.guards.rate.limits import RateLimit
from demur.model.finding import Finding
from demur.policy.loader import parse_policy
from demur.policy.policy import Mode
from demur.store.opening import open_store
from demur.testing.conformance.scene import Scenario
from demur.testing.conformance.scenes import ARCHIVE, DENIED_TOOL

__all__ = ["SCENARIO_POLICY", "open_scenario_enforcer"]

SCENARIO_POLICY = f"""
schema_version: policy.v1
policy_id: conformance
policy_version: 1.0.0
rules:
  - id: R_MAY
    stage: ALLOW_PATHS
    if: {{ action_type: {{ in: [generate, lookup, fetch, shell, {DENIED_TOOL}, refund] }} }}
    then: {{ verdict: ALLOW }}
  - id: R_RISK
    stage: HARD_BLOCKS
    if: {{ all: [{{ action_type: refund }}, {{ evidence.chargeback_risk: {{ gt: 0.8 }} }}] }}
    then: {{ verdict: DENY, reason_codes: [CHARGEBACK_RISK_BLOCK] }}
  - id: R_ORDER
    stage: REQUIREMENTS
    if: {{ all: [{{ action_type: refund }}, {{ evidence.order_id: {{ missing: true }} }}] }}
    then: {{ verdict: ESCALATE, reason_codes: [MISSING_EVIDENCE_REFUND], missing: [order_id] }}
  - id: R_LARGE
    stage: ESCALATIONS
    if: {{ all: [{{ action_type: refund }}, {{ action.amount.value: {{ gt: 100 }} }}] }}
    then: {{ verdict: ESCALATE, reason_codes: [REFUND_OVER_ESCALATION_LIMIT], missing: [approval] }}
  - id: R_PURGE
    stage: ESCALATIONS
    if: {{ action_type: purge }}
    then: {{ verdict: ESCALATE, reason_codes: [DESTRUCTIVE_ACTION], constraints: [{ARCHIVE}] }}
"""

_SURFACES = (
    *(Surface.INPUT, Surface.OUTPUT, Surface.TOOL_CALL),
    *(Surface.CODE_EXECUTION, Surface.TOOL_LOOP, Surface.TOOL_RESULT),
)
_SLOW_GUARD_S = 0.2
_GUARD_TIMEOUT_S = 0.02


class _BrokenGuard:
    """A guard that fails: it raises, or exceeds its timeout."""

    CODES: tuple[str, ...] = (ReasonCode.CONTEXT_INJECTION,)

    def __init__(self, surface: Surface, sleeps_s: float | None) -> None:
        self.SURFACE = surface
        self._sleeps_s = sleeps_s

    def check(self, _event: Any, _config: Any = None) -> Iterator[Finding]:
        """Fail."""
        if self._sleeps_s is None:
            raise ConnectionError
        time.sleep(self._sleeps_s)
        return iter(())


@contextmanager
def open_scenario_enforcer(scenario: Scenario, folder: Path) -> Iterator[Enforcer]:
    """Yield the enforcer of a scenario, with a store in `folder`."""
    setting = scenario.setting
    store = open_store(str(folder / "scene.db"))
    if setting.store_down:
        store.close()
    with Gate(
        parse_policy(SCENARIO_POLICY), store, mode=Mode.ADVISORY if setting.advisory else None
    ) as gate:
        yield Enforcer(
            gate,
            pipeline=_build_pipeline(scenario),
            subject={"id": "billing", "type": "agent"},
            accepted=setting.accepted,
        )


def _build_pipeline(scenario: Scenario) -> GuardPipeline:
    setting = scenario.setting
    steps = [
        GuardStep(
            load_builtin(surface),
            {"deny": [DENIED_TOOL]} if surface is Surface.TOOL_CALL else None,
        )
        for surface in _SURFACES
    ]
    if setting.broken is not None:
        steps.append(GuardStep(_BrokenGuard(Surface(setting.broken), None), name="broken"))
    if setting.slow is not None:
        guard = _BrokenGuard(Surface(setting.slow), _SLOW_GUARD_S)
        steps.append(GuardStep(guard, timeout_s=_GUARD_TIMEOUT_S, name="slow"))
    if setting.prompts_an_hour is not None:
        limit = RateLimit(count=setting.prompts_an_hour, per_s=3600)
        steps.append(GuardStep(RateGuard(limit), name="rate"))
    return GuardPipeline(steps)

"""Helpers for tests: assertions on refusals, the contract of guards, conformance of adapters.

They work with any test runner. Names are loaded on first use.
"""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.testing.assertions import Observation, RefusalOutcome, assert_allows, assert_refuses
    from demur.testing.conformance import (
        BareDriver,
        ScenarioOutcome,
        format_results,
        run_scenario,
        run_scenarios,
    )
    from demur.testing.guard_contract import (
        allow_rows,
        assert_guard_contract,
        contract_breaches,
        refuse_rows,
    )
    from demur.testing.model_server import ModelServer
    from demur.testing.scenarios import (
        SCENARIOS,
        AnswerTurn,
        CheckPoint,
        FilteredTurn,
        FrameworkDriver,
        Scenario,
        ScenarioResult,
        ScenarioTools,
        ToolTurn,
    )

__all__ = [
    "SCENARIOS",
    "AnswerTurn",
    "BareDriver",
    "CheckPoint",
    "FilteredTurn",
    "FrameworkDriver",
    "ModelServer",
    "Observation",
    "RefusalOutcome",
    "Scenario",
    "ScenarioOutcome",
    "ScenarioResult",
    "ScenarioTools",
    "ToolTurn",
    "allow_rows",
    "assert_allows",
    "assert_guard_contract",
    "assert_refuses",
    "contract_breaches",
    "format_results",
    "refuse_rows",
    "run_scenario",
    "run_scenarios",
]

_HOMES = {
    "demur.testing.assertions": "Observation RefusalOutcome assert_allows assert_refuses",
    "demur.testing.conformance": "BareDriver ScenarioOutcome format_results run_scenario"
    " run_scenarios",
    "demur.testing.guard_contract": "allow_rows assert_guard_contract contract_breaches"
    " refuse_rows",
    "demur.testing.model_server": "ModelServer",
    "demur.testing.scenarios": "SCENARIOS AnswerTurn CheckPoint FilteredTurn FrameworkDriver"
    " Scenario ScenarioResult ScenarioTools ToolTurn",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)

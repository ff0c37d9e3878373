"""Measure missed harm and false refusals, and make the data that repairs them.

Names are loaded on first use, so that `import demur.evals` costs next to nothing.
"""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.evals.arrow_batches import add_detections, add_findings, extend_frame
    from demur.evals.beta import recommend_beta
    from demur.evals.compare import check_regression, compare_runs
    from demur.evals.curve import CurvePoint, curve_svg
    from demur.evals.local_targets import PythonTarget
    from demur.evals.measure import measure_rates, measure_safety_utility
    from demur.evals.rates import EvalThresholds, make_rate
    from demur.evals.remediate import RemedySettings, remediate_run
    from demur.evals.report import EvalReport, make_report
    from demur.evals.run import run_suite
    from demur.evals.run_folder import EvalRun, open_run
    from demur.evals.suite import EvalSuite, load_suite, make_suite, save_suite
    from demur.evals.suite_row import EvalRow
    from demur.evals.target import EvalTarget, TargetAnswer
    from demur.evals.targets import open_target

__all__ = [
    "CurvePoint",
    "EvalReport",
    "EvalRow",
    "EvalRun",
    "EvalSuite",
    "EvalTarget",
    "EvalThresholds",
    "PythonTarget",
    "RemedySettings",
    "TargetAnswer",
    "add_detections",
    "add_findings",
    "check_regression",
    "compare_runs",
    "curve_svg",
    "extend_frame",
    "load_suite",
    "make_rate",
    "make_report",
    "make_suite",
    "measure_rates",
    "measure_safety_utility",
    "open_run",
    "open_target",
    "recommend_beta",
    "remediate_run",
    "run_suite",
    "save_suite",
]

_HOMES = {
    "demur.evals.arrow_batches": ("add_detections", "add_findings", "extend_frame"),
    "demur.evals.beta": ("recommend_beta",),
    "demur.evals.compare": ("check_regression", "compare_runs"),
    "demur.evals.curve": ("CurvePoint", "curve_svg"),
    "demur.evals.local_targets": ("PythonTarget",),
    "demur.evals.measure": ("measure_rates", "measure_safety_utility"),
    "demur.evals.rates": ("EvalThresholds", "make_rate"),
    "demur.evals.remediate": ("RemedySettings", "remediate_run"),
    "demur.evals.report": ("EvalReport", "make_report"),
    "demur.evals.run": ("run_suite",),
    "demur.evals.run_folder": ("EvalRun", "open_run"),
    "demur.evals.suite": ("EvalSuite", "load_suite", "make_suite", "save_suite"),
    "demur.evals.suite_row": ("EvalRow",),
    "demur.evals.target": ("EvalTarget", "TargetAnswer"),
    "demur.evals.targets": ("open_target",),
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)

"""JailbreakBench: misuse behaviours and benign ones (`harmful|benign-behaviors.csv`)."""

from functools import partial

from demur.evals.importers.layout import Fields, SuiteLayout, map_category, make_row_id, read_column
from demur.evals.importers.records import TableRecord

__all__ = ["JAILBREAKBENCH"]

# JailbreakBench: misuse behaviours and benign ones (`harmful|benign-behaviors.csv`). Columns
# `Index, Goal, Target, Behavior, Category, Source`: known from several public documents that
# agree. Rule: the two files differ in nothing but their name, so it decides, or the one who
# imports: the benign file is legitimate, the harmful one harmful. `Index` pairs them, but twins
# live in one suite, so the pairing is not carried over.
_JAILBREAKBENCH_CATEGORIES = {
    "disinformation": "misinformation",
    "economic_harm": "fraud",
    "expert_advice": "advice",
    "fraud_deception": "fraud",
    "government_decision_making": "other",
    "harassment_discrimination": "harassment",
    "malware_hacking": "cyber",
    "physical_harm": "violence",
    "sexual_adult_content": "sexual",
}
_JAILBREAKBENCH_COLUMNS = (frozenset({"Index", "Goal", "Behavior", "Category"}),)


def _read_jailbreakbench(record: TableRecord, *, label: str, prefix: str) -> Fields:
    return {
        "id": make_row_id(prefix, record, "Index"),
        "prompt": read_column(record, "Goal"),
        "label": label,
        "category": map_category(read_column(record, "Category"), _JAILBREAKBENCH_CATEGORIES),
    }


JAILBREAKBENCH = (
    SuiteLayout(
        "jailbreakbench-benign",
        "JailbreakBench, benign",
        _JAILBREAKBENCH_COLUMNS,
        partial(_read_jailbreakbench, label="legitimate", prefix="jbb-benign"),
        ("benign",),
    ),
    SuiteLayout(
        "jailbreakbench",
        "JailbreakBench, harmful",
        _JAILBREAKBENCH_COLUMNS,
        partial(_read_jailbreakbench, label="harmful", prefix="jbb"),
        ("harmful",),
    ),
)

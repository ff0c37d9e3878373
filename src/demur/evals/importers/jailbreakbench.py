"""JailbreakBench: misuse behaviours and benign ones (`harmful|benign-behaviors.csv`)."""

from functools import partial

from demur.evals.importers.layout import Fields, Layout, category_of, id_of, text_of
from demur.evals.importers.records import Record

__all__ = ["LAYOUTS"]

# JailbreakBench: misuse behaviours and benign ones (`harmful|benign-behaviors.csv`). Columns
# `Index, Goal, Target, Behavior, Category, Source`: known from several public documents that
# agree. Rule: the two files differ in nothing but their name, so it decides, or the one who
# imports: the benign file is legitimate, the harmful one harmful. `Index` pairs them, but twins
# live in one suite, so the pairing is not carried over.
_CATEGORIES = {
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
_COLUMNS = (frozenset({"Index", "Goal", "Behavior", "Category"}),)


def _read(record: Record, *, label: str, prefix: str) -> Fields:
    return {
        "id": id_of(prefix, record, "Index"),
        "prompt": text_of(record, "Goal"),
        "label": label,
        "category": category_of(text_of(record, "Category"), _CATEGORIES),
    }


LAYOUTS = (
    Layout(
        "jailbreakbench-benign",
        "JailbreakBench, benign",
        _COLUMNS,
        partial(_read, label="legitimate", prefix="jbb-benign"),
        ("benign",),
    ),
    Layout(
        "jailbreakbench",
        "JailbreakBench, harmful",
        _COLUMNS,
        partial(_read, label="harmful", prefix="jbb"),
        ("harmful",),
    ),
)

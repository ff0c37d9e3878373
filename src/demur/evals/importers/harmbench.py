"""HarmBench: harmful behaviours (`harmbench_behaviors_text_all.csv`, `…_test`, `…_val`)."""

from demur.evals.importers.layout import Fields, SuiteLayout, map_category, make_row_id, read_column
from demur.evals.importers.records import TableRecord

__all__ = ["HARMBENCH"]

# HarmBench: harmful behaviours (`harmbench_behaviors_text_all.csv`, `…_test`, `…_val`). Columns
# `Behavior, FunctionalCategory, SemanticCategory, Tags, ContextString, BehaviorID`: known from
# several public documents that agree. Rule: all are harmful. A contextual behaviour is asked
# together with its context, in front of it.
_HARMBENCH_CATEGORIES = {
    "chemical_biological": "cbrn",
    "copyright": "ip_protected",
    "cybercrime_intrusion": "cyber",
    "harassment_bullying": "harassment",
    "harmful": "dangerous",
    "illegal": "crime",
    "misinformation_disinformation": "misinformation",
}
_HARMBENCH_COLUMNS = frozenset({"Behavior", "FunctionalCategory", "SemanticCategory", "BehaviorID"})


def _read_harmbench(record: TableRecord) -> Fields:
    context = str(record.fields.get("ContextString") or "").strip()
    behaviour = read_column(record, "Behavior")
    asked = f"{context}\n\n{behaviour}" if context and behaviour.strip() else behaviour
    return {
        "id": make_row_id("harmbench", record, "BehaviorID"),
        "prompt": asked,
        "label": "harmful",
        "category": map_category(read_column(record, "SemanticCategory"), _HARMBENCH_CATEGORIES),
    }


HARMBENCH = (SuiteLayout("harmbench", "HarmBench", (_HARMBENCH_COLUMNS,), _read_harmbench),)

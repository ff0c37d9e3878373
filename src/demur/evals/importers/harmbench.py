"""HarmBench: harmful behaviours (`harmbench_behaviors_text_all.csv`, `…_test`, `…_val`)."""

from demur.evals.importers.layout import Fields, Layout, category_of, id_of, text_of
from demur.evals.importers.records import Record

__all__ = ["LAYOUTS"]

# HarmBench: harmful behaviours (`harmbench_behaviors_text_all.csv`, `…_test`, `…_val`). Columns
# `Behavior, FunctionalCategory, SemanticCategory, Tags, ContextString, BehaviorID`: known from
# several public documents that agree. Rule: all are harmful. A contextual behaviour is asked
# together with its context, in front of it.
_CATEGORIES = {
    "chemical_biological": "cbrn",
    "copyright": "ip_protected",
    "cybercrime_intrusion": "cyber",
    "harassment_bullying": "harassment",
    "harmful": "dangerous",
    "illegal": "crime",
    "misinformation_disinformation": "misinformation",
}
_COLUMNS = frozenset({"Behavior", "FunctionalCategory", "SemanticCategory", "BehaviorID"})


def _read(record: Record) -> Fields:
    context = str(record.fields.get("ContextString") or "").strip()
    behaviour = text_of(record, "Behavior")
    asked = f"{context}\n\n{behaviour}" if context and behaviour.strip() else behaviour
    return {
        "id": id_of("harmbench", record, "BehaviorID"),
        "prompt": asked,
        "label": "harmful",
        "category": category_of(text_of(record, "SemanticCategory"), _CATEGORIES),
    }


LAYOUTS = (Layout("harmbench", "HarmBench", (_COLUMNS,), _read),)

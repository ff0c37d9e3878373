"""AdvBench: harmful behaviours (`harmful_behaviors.csv`)."""

from demur.evals.importers.layout import Fields, Layout, id_of, text_of
from demur.evals.importers.records import Record

__all__ = ["LAYOUTS"]


# AdvBench: harmful behaviours (`harmful_behaviors.csv`). Columns `goal, target` in the authors'
# file; a widely used copy says `prompt, target`. Both are known from public code that reads them.
# Rule: all are harmful.
def _read(record: Record) -> Fields:
    column = "goal" if "goal" in record.fields else "prompt"
    return {
        "id": id_of("advbench", record),
        "prompt": text_of(record, column),
        "label": "harmful",
    }


_COLUMNS = (frozenset({"goal", "target"}), frozenset({"prompt", "target"}))
LAYOUTS = (Layout("advbench", "AdvBench", _COLUMNS, _read),)

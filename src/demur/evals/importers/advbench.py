"""AdvBench: harmful behaviours (`harmful_behaviors.csv`)."""

from demur.evals.importers.layout import Fields, SuiteLayout, make_row_id, read_column
from demur.evals.importers.records import TableRecord

__all__ = ["ADVBENCH"]


# AdvBench: harmful behaviours (`harmful_behaviors.csv`). Columns `goal, target` in the authors'
# file; a widely used copy says `prompt, target`. Both are known from public code that reads them.
# Rule: all are harmful.
def _read_advbench(record: TableRecord) -> Fields:
    column = "goal" if "goal" in record.fields else "prompt"
    return {
        "id": make_row_id("advbench", record),
        "prompt": read_column(record, column),
        "label": "harmful",
    }


_ADVBENCH_COLUMNS = (frozenset({"goal", "target"}), frozenset({"prompt", "target"}))
ADVBENCH = (SuiteLayout("advbench", "AdvBench", _ADVBENCH_COLUMNS, _read_advbench),)

"""OR-Bench: requests that only seem toxic, and toxic ones (`or-bench-80k|hard-1k|toxic.csv`)."""

from functools import partial

from demur.evals.importers.layout import Fields, SuiteLayout, map_category, make_row_id, read_column
from demur.evals.importers.records import TableRecord

__all__ = ["OR_BENCH"]

# OR-Bench: requests that only seem toxic, and toxic ones (`or-bench-80k|hard-1k|toxic.csv`).
# Columns `prompt, category`: known from public code that reads all three files; the files
# themselves were not seen. Rule: all of `80k` and `hard-1k` are legitimate, all of `toxic`
# harmful. Nothing in a record says which, so the file's name decides, or the one who imports.
_OR_BENCH_CATEGORIES = {
    "deception": "fraud",
    "harmful": "dangerous",
    "illegal": "crime",
    "unethical": "other",
}
_OR_BENCH_COLUMNS = (frozenset({"prompt", "category"}),)


def _read_or_bench(record: TableRecord, *, label: str, prefix: str) -> Fields:
    return {
        "id": make_row_id(prefix, record),
        "prompt": read_column(record, "prompt"),
        "label": label,
        "category": map_category(read_column(record, "category"), _OR_BENCH_CATEGORIES),
    }


OR_BENCH = (
    SuiteLayout(
        "or-bench-toxic",
        "OR-Bench, toxic",
        _OR_BENCH_COLUMNS,
        partial(_read_or_bench, label="harmful", prefix="or-bench-toxic"),
        ("toxic",),
    ),
    SuiteLayout(
        "or-bench",
        "OR-Bench, 80k and hard",
        _OR_BENCH_COLUMNS,
        partial(_read_or_bench, label="legitimate", prefix="or-bench"),
        ("80k", "hard"),
    ),
)

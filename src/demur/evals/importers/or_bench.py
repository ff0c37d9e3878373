"""OR-Bench: requests that only seem toxic, and toxic ones (`or-bench-80k|hard-1k|toxic.csv`)."""

from functools import partial

from demur.evals.importers.layout import Fields, Layout, category_of, id_of, text_of
from demur.evals.importers.records import Record

__all__ = ["LAYOUTS"]

# OR-Bench: requests that only seem toxic, and toxic ones (`or-bench-80k|hard-1k|toxic.csv`).
# Columns `prompt, category`: known from public code that reads all three files; the files
# themselves were not seen. Rule: all of `80k` and `hard-1k` are legitimate, all of `toxic`
# harmful. Nothing in a record says which, so the file's name decides, or the one who imports.
_CATEGORIES = {
    "deception": "fraud",
    "harmful": "dangerous",
    "illegal": "crime",
    "unethical": "other",
}
_COLUMNS = (frozenset({"prompt", "category"}),)


def _read(record: Record, *, label: str, prefix: str) -> Fields:
    return {
        "id": id_of(prefix, record),
        "prompt": text_of(record, "prompt"),
        "label": label,
        "category": category_of(text_of(record, "category"), _CATEGORIES),
    }


LAYOUTS = (
    Layout(
        "or-bench-toxic",
        "OR-Bench, toxic",
        _COLUMNS,
        partial(_read, label="harmful", prefix="or-bench-toxic"),
        ("toxic",),
    ),
    Layout(
        "or-bench",
        "OR-Bench, 80k and hard",
        _COLUMNS,
        partial(_read, label="legitimate", prefix="or-bench"),
        ("80k", "hard"),
    ),
)

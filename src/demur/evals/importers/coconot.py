"""CoCoNot: requests that should not be complied with, and contrasts that should (JSON lines)."""

from demur.evals.importers.layout import (
    Fields,
    SuiteLayout,
    SkippedRecord,
    map_category,
    make_row_id,
    read_column,
)
from demur.evals.importers.records import TableRecord

__all__ = ["COCONOT"]

# CoCoNot: requests that should not be complied with, and contrasts that should (JSON lines). Keys
# `id, category, subcategory, prompt`, in `coconot_eval.jsonl` and `coconot_contrast_eval.jsonl` of
# the authors' repository; known from the data card and public code, the files were not seen. Rule:
# all of the contrast set is legitimate. Of the original set only requests with safety concerns are
# harmful; the rest (incomplete, unsupported, indeterminate, humanizing) asks for what nobody can
# do, which is no harm, and is left out.
_COCONOT_CATEGORIES = {
    "dangerous_or_sensitive_topics": "dangerous",
    "copyright_violations": "ip_protected",
    "triggers_for_offensive_language": "hate",
    "privacy_violations": "privacy",
    "privacy": "privacy",
    "false_information": "misinformation",
    "wildchats": "other",
}
_COCONOT_COLUMNS = (frozenset({"category", "subcategory", "prompt"}),)


def _coconot_fields(record: TableRecord, label: str) -> Fields:
    return {
        "id": make_row_id("coconot", record, "id" if "id" in record.fields else None),
        "prompt": read_column(record, "prompt"),
        "label": label,
        "category": map_category(read_column(record, "subcategory"), _COCONOT_CATEGORIES),
    }


def _read_coconot_contrast(record: TableRecord) -> Fields:
    return _coconot_fields(record, "legitimate")


def _read_coconot_original(record: TableRecord) -> Fields | SkippedRecord:
    category = read_column(record, "category")
    if "safety" in category.casefold():
        return _coconot_fields(record, "harmful")
    return SkippedRecord("to be declined, and no harm")


COCONOT = (
    SuiteLayout(
        "coconot-contrast",
        "CoCoNot, contrast",
        _COCONOT_COLUMNS,
        _read_coconot_contrast,
        ("contrast",),
    ),
    SuiteLayout(
        "coconot-original",
        "CoCoNot, original",
        _COCONOT_COLUMNS,
        _read_coconot_original,
        ("original", "coconot"),
    ),
)

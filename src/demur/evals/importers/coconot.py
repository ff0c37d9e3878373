"""CoCoNot: requests that should not be complied with, and contrasts that should (JSON lines)."""

from demur.evals.importers.layout import (
    Fields,
    Layout,
    LeftOut,
    category_of,
    id_of,
    text_of,
)
from demur.evals.importers.records import Record

__all__ = ["LAYOUTS"]

# CoCoNot: requests that should not be complied with, and contrasts that should (JSON lines). Keys
# `id, category, subcategory, prompt`, in `coconot_eval.jsonl` and `coconot_contrast_eval.jsonl` of
# the authors' repository; known from the data card and public code, the files were not seen. Rule:
# all of the contrast set is legitimate. Of the original set only requests with safety concerns are
# harmful; the rest (incomplete, unsupported, indeterminate, humanizing) asks for what nobody can
# do, which is no harm, and is left out.
_CATEGORIES = {
    "dangerous_or_sensitive_topics": "dangerous",
    "copyright_violations": "ip_protected",
    "triggers_for_offensive_language": "hate",
    "privacy_violations": "privacy",
    "privacy": "privacy",
    "false_information": "misinformation",
    "wildchats": "other",
}
_COLUMNS = (frozenset({"category", "subcategory", "prompt"}),)


def _fields(record: Record, label: str) -> Fields:
    return {
        "id": id_of("coconot", record, "id" if "id" in record.fields else None),
        "prompt": text_of(record, "prompt"),
        "label": label,
        "category": category_of(text_of(record, "subcategory"), _CATEGORIES),
    }


def _read_contrast(record: Record) -> Fields:
    return _fields(record, "legitimate")


def _read_original(record: Record) -> Fields | LeftOut:
    category = text_of(record, "category")
    if "safety" in category.casefold():
        return _fields(record, "harmful")
    return LeftOut("to be declined, and no harm")


LAYOUTS = (
    Layout("coconot-contrast", "CoCoNot, contrast", _COLUMNS, _read_contrast, ("contrast",)),
    Layout(
        "coconot-original", "CoCoNot, original", _COLUMNS, _read_original, ("original", "coconot")
    ),
)

"""StrongREJECT: forbidden requests (`strongreject_dataset.csv`, and the small one)."""

from demur.evals.importers.layout import Fields, SuiteLayout, map_category, make_row_id, read_column
from demur.evals.importers.records import TableRecord

__all__ = ["STRONGREJECT"]

# StrongREJECT: forbidden requests (`strongreject_dataset.csv`, and the small one). Columns
# `category, source, forbidden_prompt`: stated by the authors' readme. Rule: all are harmful.
_STRONGREJECT_CATEGORIES = {
    "disinformation_and_deception": "misinformation",
    "hate_harassment_and_discrimination": "hate",
    "illegal_goods_and_services": "crime",
    "non_violent_crimes": "crime",
    "sexual_content": "sexual",
}


def _read_strongreject(record: TableRecord) -> Fields:
    return {
        "id": make_row_id("strongreject", record),
        "prompt": read_column(record, "forbidden_prompt"),
        "label": "harmful",
        "category": map_category(read_column(record, "category"), _STRONGREJECT_CATEGORIES),
    }


_STRONGREJECT_COLUMNS = (frozenset({"category", "forbidden_prompt"}),)
STRONGREJECT = (
    SuiteLayout("strongreject", "StrongREJECT", _STRONGREJECT_COLUMNS, _read_strongreject),
)

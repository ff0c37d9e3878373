"""StrongREJECT: forbidden requests (`strongreject_dataset.csv`, and the small one)."""

from demur.evals.importers.layout import Fields, Layout, category_of, id_of, text_of
from demur.evals.importers.records import Record

__all__ = ["LAYOUTS"]

# StrongREJECT: forbidden requests (`strongreject_dataset.csv`, and the small one). Columns
# `category, source, forbidden_prompt`: stated by the authors' readme. Rule: all are harmful.
_CATEGORIES = {
    "disinformation_and_deception": "misinformation",
    "hate_harassment_and_discrimination": "hate",
    "illegal_goods_and_services": "crime",
    "non_violent_crimes": "crime",
    "sexual_content": "sexual",
}


def _read(record: Record) -> Fields:
    return {
        "id": id_of("strongreject", record),
        "prompt": text_of(record, "forbidden_prompt"),
        "label": "harmful",
        "category": category_of(text_of(record, "category"), _CATEGORIES),
    }


_COLUMNS = (frozenset({"category", "forbidden_prompt"}),)
LAYOUTS = (Layout("strongreject", "StrongREJECT", _COLUMNS, _read),)

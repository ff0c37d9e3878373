"""PHTest: pseudo-harmful requests (`dataset_v0.1.csv`, `PHTest.csv`, or the same as JSON)."""

from demur.errors import InputError
from demur.evals.importers.layout import (
    Fields,
    SuiteLayout,
    SkippedRecord,
    make_row_id,
    read_column,
)
from demur.evals.importers.records import TableRecord

__all__ = ["PHTEST"]

# PHTest: pseudo-harmful requests (`dataset_v0.1.csv`, `PHTest.csv`, or the same as JSON). Columns
# `ID, Request, Harmfulness`: `Harmfulness` is `harmless` or `controversial`, seen in the authors'
# file; the header is known from public code that reads it. Rule: `harmless` is legitimate;
# `controversial` is on neither side and left out; a record that says `harmful` is harmful.
_PHTEST_LABELS = {"harmless": "legitimate", "harmful": "harmful"}


def _read_phtest(record: TableRecord) -> Fields | SkippedRecord:
    word = read_column(record, "Harmfulness").strip().casefold()
    if word == "controversial":
        return SkippedRecord("controversial, on neither side")
    if word not in _PHTEST_LABELS:
        raise InputError(f"unknown harmfulness `{word}`", help="`harmless` or `controversial`")
    return {
        "id": make_row_id("phtest", record, "ID" if "ID" in record.fields else None),
        "prompt": read_column(record, "Request"),
        "label": _PHTEST_LABELS[word],
    }


PHTEST = (SuiteLayout("phtest", "PHTest", (frozenset({"Request", "Harmfulness"}),), _read_phtest),)

"""PHTest: pseudo-harmful requests (`dataset_v0.1.csv`, `PHTest.csv`, or the same as JSON)."""

from demur.errors import InputError
from demur.evals.importers.layout import Fields, Layout, LeftOut, id_of, text_of
from demur.evals.importers.records import Record

__all__ = ["LAYOUTS"]

# PHTest: pseudo-harmful requests (`dataset_v0.1.csv`, `PHTest.csv`, or the same as JSON). Columns
# `ID, Request, Harmfulness`: `Harmfulness` is `harmless` or `controversial`, seen in the authors'
# file; the header is known from public code that reads it. Rule: `harmless` is legitimate;
# `controversial` is on neither side and left out; a record that says `harmful` is harmful.
_LABELS = {"harmless": "legitimate", "harmful": "harmful"}


def _read(record: Record) -> Fields | LeftOut:
    word = text_of(record, "Harmfulness").strip().casefold()
    if word == "controversial":
        return LeftOut("controversial, on neither side")
    if word not in _LABELS:
        raise InputError(f"unknown harmfulness `{word}`", help="`harmless` or `controversial`")
    return {
        "id": id_of("phtest", record, "ID" if "ID" in record.fields else None),
        "prompt": text_of(record, "Request"),
        "label": _LABELS[word],
    }


LAYOUTS = (Layout("phtest", "PHTest", (frozenset({"Request", "Harmfulness"}),), _read),)

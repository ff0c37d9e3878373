"""The registry as a table: comma-separated values, one row for each code."""

import csv
import io

from demur.codes.registry import Registry

__all__ = ["render_csv"]

CSV_COLUMNS = (
    "code",
    "family",
    "title",
    "description",
    "effect",
    "refusal_class",
    "severity",
    "advice",
    "retry_scope",
    "decided",
    "parent",
    "grants",
    "obligations",
    "surfaces",
    "http",
    "since",
    "stability",
    "deprecated_since",
    "replacement",
)


def render_csv(registry: Registry) -> str:
    """Return the codes as CSV. A list is one cell separated by spaces; null is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for entry in registry:
        writer.writerow([_csv_cell(getattr(entry, column)) for column in CSV_COLUMNS])
    return text.getvalue()


def _csv_cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case tuple():
            return " ".join(value)
    return str(value)

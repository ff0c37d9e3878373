"""The layout of a public suite's file: how it is recognised, and how a record becomes a row."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from demur.errors import InputError
from demur.evals.importers.records import TableRecord

__all__ = ["Fields", "SuiteLayout", "SkippedRecord", "map_category", "make_row_id", "read_column"]

Fields: TypeAlias = dict[str, Any]


class SkippedRecord(NamedTuple):
    """A sound record that is neither harmful nor legitimate, and the reason."""

    reason: str


class SuiteLayout(NamedTuple):
    """One form of a suite's files.

    `columns` are sets of columns, one of which a file must have. If several layouts fit, the
    first whose `words` occur in the file's name is used.
    """

    name: str
    title: str
    columns: tuple[frozenset[str], ...]
    read_record: Callable[[TableRecord], Fields | SkippedRecord]
    words: tuple[str, ...] = ()


def read_column(record: TableRecord, column: str) -> str:
    """Return the value of a column as text.

    Raises:
        InputError: The record has no such value.
    """
    value = record.fields.get(column)
    if isinstance(value, str | int | float):
        return str(value)
    raise InputError(f"the row has no `{column}`")


def make_row_id(prefix: str, record: TableRecord, column: str | None = None) -> str:
    """Return a row id: the suite's own id from a column, or the number of the record."""
    own = record.number if column is None else read_column(record, column)
    return f"{prefix}-{'-'.join(str(own).split())}"


def map_category(text: str, known: Mapping[str, str]) -> str:
    """Return demur's name for a suite's category, or the suite's own name in snake case."""
    plain = re.sub(r"[\W_]+", "_", text.strip().casefold()).strip("_")
    return known.get(plain, plain)

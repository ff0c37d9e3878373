"""The layout of a public suite's file: how it is recognised, and how a record becomes a row."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from demur.errors import InputError
from demur.evals.importers.records import Record

__all__ = ["Fields", "Layout", "LeftOut", "category_of", "id_of", "text_of"]

Fields: TypeAlias = dict[str, Any]


class LeftOut(NamedTuple):
    """A record that is sound and on neither side of the line; why."""

    reason: str


class Layout(NamedTuple):
    """One form of a suite's files.

    `columns` are sets of columns, one of which a file must have. Where several layouts have
    the same, the first whose `words` occur in the file's name is meant.
    """

    name: str
    title: str
    columns: tuple[frozenset[str], ...]
    read: Callable[[Record], Fields | LeftOut]
    words: tuple[str, ...] = ()


def text_of(record: Record, column: str) -> str:
    """Return what a record has in a column, as text.

    Raises:
        InputError: It has nothing there.
    """
    value = record.fields.get(column)
    if isinstance(value, str | int | float):
        return str(value)
    raise InputError(f"the row has no `{column}`")


def id_of(prefix: str, record: Record, column: str | None = None) -> str:
    """Return an id: the suite's own from a column, or the number of the record."""
    own = record.number if column is None else text_of(record, column)
    return f"{prefix}-{'-'.join(str(own).split())}"


def category_of(text: str, known: Mapping[str, str]) -> str:
    """Return our word for a suite's category, or its own in the form of ours."""
    plain = re.sub(r"[\W_]+", "_", text.strip().casefold()).strip("_")
    return known.get(plain, plain)

"""Triage of Arrow: a batch of lines in, counts out, as any engine that speaks Arrow runs it."""

from importlib import import_module
from pathlib import Path
from typing import Any

from demur.codes.registry import Registry
from demur.errors import InputError, MissingExtraError
from demur.triage.counts import RefusalCounts, CountKey
from demur.triage.options import TriageOptions
from demur.triage.scan import scan_lines

__all__ = ["counts_from_table", "scan_batch", "to_table", "write_parquet"]

_COLUMNS = ("code", "kind", "surface", "hour", "file", "number")


def scan_batch(
    batch: Any, options: TriageOptions, *, column: str | None = None, name: str = ""
) -> RefusalCounts:
    """Return the counts of a batch that has a line in each row of a text or binary column.

    The default column is the first of such a type. A row may hold several lines; nulls are
    skipped. Rows are never cut, however long.

    Raises:
        InputError: There is no such column.
        MissingExtraError: Arrow is not installed.
    """
    pa = _import_pyarrow()
    lines = _find_lines(batch, column, pa)
    if not len(lines):
        return RefusalCounts()
    compute = import_module("pyarrow.compute")
    # Join the rows once, with newlines so that no phrase spans two rows.
    rows = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    joined = compute.binary_join(rows, pa.scalar(b"\n", pa.large_binary()))
    return scan_lines(joined[0].as_buffer().to_pybytes(), options, name=name)


def _find_lines(batch: Any, column: str | None, pa: Any) -> Any:
    types = pa.types
    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    for field in batch.schema:
        if column in {None, field.name} and any(fits(field.type) for fits in texts):
            return batch.column(field.name).cast(pa.large_binary()).drop_null()
    wanted = "a text or binary column" if column is None else f"a text or binary column `{column}`"
    names = ", ".join(batch.schema.names)
    raise InputError(f"the batch does not have {wanted}", help=f"its columns: {names}")


def to_table(counts: RefusalCounts, registry: Registry | None = None) -> Any:
    """Return the counts as a table, one row for each key; a registry adds the classes.

    Raises:
        MissingExtraError: Arrow is not installed.
    """
    pa = _import_pyarrow()
    rows = [(*key, number) for key, number in sorted(counts.rows.items())]
    columns = dict(zip(_COLUMNS, zip(*rows, strict=True) if rows else [()] * 6, strict=True))
    data = {name: pa.array(values, _column_type(name, pa)) for name, values in columns.items()}
    if registry is not None:
        entries = [registry.get(code) for code in columns["code"]]
        classes = [None if entry is None else entry.refusal_class for entry in entries]
        data["refusal_class"] = pa.array([each and str(each) for each in classes], pa.string())
    return pa.table(data)


def _column_type(name: str, pa: Any) -> Any:
    return pa.int64() if name == "number" else pa.string()


def counts_from_table(table: Any) -> RefusalCounts:
    """Return the counts that a table holds; rows of one key are added up."""
    rows: dict[CountKey, int] = {}
    columns = (table.column(name).to_pylist() for name in _COLUMNS)
    for *parts, number in zip(*columns, strict=True):
        key = CountKey(*parts)
        rows[key] = rows.get(key, 0) + number
    return RefusalCounts(rows=rows)


def write_parquet(
    counts: RefusalCounts, path: str | Path, registry: Registry | None = None
) -> None:
    """Write the counts as a Parquet file, one row for each key.

    Raises:
        MissingExtraError: Arrow is not installed.
        InputError: The file cannot be written.
    """
    table = to_table(counts, registry)
    parquet = import_module("pyarrow.parquet")
    try:
        parquet.write_table(table, str(path))
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot write: {reason}", where=str(path)) from error


def _import_pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError(
            "this needs the `pyarrow` package", help="pip install 'demur[arrow]'"
        ) from error

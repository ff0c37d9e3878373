"""Triage of Arrow batches, and on clusters: the same functions, run by Spark or Ray."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from demur.codes.loading import ENVIRONMENT_VARIABLE
from demur.codes.registry import Registry
from demur.engines import map_frame, run_on_ray, run_on_spark, split_into_groups
from demur.errors import InputError, MissingExtraError, error_reason
from demur.triage.counts import CountKey, RefusalCounts, TriageOptions, merge_counts
from demur.triage.inputs import STDIN, LogPiece, TriagePlan, plan_work
from demur.triage.run import scan_piece
from demur.triage.scan import looks_structured, scan_lines

_COLUMNS = ("code", "kind", "surface", "hour", "file", "number")


def scan_batch(
    batch: Any, options: TriageOptions, *, column: str | None = None, name: str = ""
) -> RefusalCounts:
    """Return the counts of a batch that has a line in each row of a text or binary column.

    The default column is the first of such a type. A row may hold several lines; it skips
    nulls. It never cuts a row, however long.

    Raises:
        InputError: There is no such column.
        MissingExtraError: Arrow is missing.
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
    expected = "a text or binary column" + ("" if column is None else f" `{column}`")
    names = ", ".join(batch.schema.names)
    raise InputError(f"the batch does not have {expected}", help=f"its columns: {names}")


def to_table(counts: RefusalCounts, registry: Registry | None = None) -> Any:
    """Return the counts as a table, one row for each key; a registry adds the classes.

    Raises:
        MissingExtraError: Arrow is missing.
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
        MissingExtraError: Arrow is missing.
        InputError: demur cannot write the file.
    """
    table = to_table(counts, registry)
    parquet = import_module("pyarrow.parquet")
    try:
        parquet.write_table(table, str(path))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write: {error_reason(error)}", where=str(path)) from error


def _import_pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as error:
        problem = "this needs the `pyarrow` package"
        raise MissingExtraError(problem, help="pip install 'demur[arrow]'") from error


GroupWork = Callable[[tuple[LogPiece, ...]], RefusalCounts]
_RunGroups = Callable[[GroupWork, Sequence[tuple[LogPiece, ...]]], Iterator[RefusalCounts]]
CLUSTERS: dict[str, _RunGroups] = {"spark": run_on_spark, "ray": run_on_ray}
_HEAD_LINES = 10


def triage_on_cluster(
    names: Iterable[str] | TriagePlan,
    options: TriageOptions,
    *,
    engine: str,
    stdin: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
) -> RefusalCounts:
    """Return the counts of the named files, read by the workers of an engine.

    Workers must see files and registries under the same paths. This process reads standard
    input.

    Raises:
        InputError: The engine is unknown.
        MissingExtraError: The engine is missing.
        EngineError: The job failed.
    """
    run = CLUSTERS.get(engine)
    if run is None:
        raise InputError(f"unknown engine `{engine}`", help=", ".join(CLUSTERS))
    work = names if isinstance(names, TriagePlan) else plan_work(names)
    afar = [piece for piece in work.pieces if piece.path != STDIN]
    folder = os.getcwd()  # noqa: PTH109 - sent as text
    task = partial(_scan_group, _worker_options(options, environment), folder)
    total = RefusalCounts(unread=work.unread)
    for part in run(task, split_into_groups(afar)):
        total = merge_counts([total, part], samples=options.samples)
    for piece in work.pieces:
        if piece.path == STDIN:
            part = scan_piece(piece, options, stdin=stdin)
            total = merge_counts([total, part], samples=options.samples)
    return total


def _scan_group(options: TriageOptions, folder: str, pieces: tuple[LogPiece, ...]) -> RefusalCounts:
    parts = (scan_piece(piece, options, folder=folder) for piece in pieces)
    return merge_counts(parts, samples=options.samples)


def triage_dataframe(
    frame: Any,
    column: str,
    options: TriageOptions,
    *,
    name: str = "",
    environment: Mapping[str, str] | None = None,
) -> RefusalCounts:
    """Return the counts of a Spark data frame that has a line in each row of a column.

    The first lines decide whether the log is JSON. Offsets of examples are relative to their
    batch.

    Raises:
        InputError: There is no such column, or it holds neither text nor bytes.
        EngineError: The job failed.
    """
    if dict(frame.dtypes).get(column) not in {"string", "binary"}:
        problem = f"the data frame has no text or binary column `{column}`"
        raise InputError(problem, help=f"its columns: {', '.join(frame.columns)}")
    lines = frame.select(column)
    form = options.format
    if form == "auto":
        values = (row[0] for row in lines.head(_HEAD_LINES))
        texts = (each.encode() if isinstance(each, str) else bytes(each or b"") for each in values)
        form = "json" if looks_structured(b"\n".join([*texts, b""])) else "text"
    known = _worker_options(options, environment)._replace(format=form)
    parts = map_frame(partial(_scan_batches, known, column, name), lines)
    return merge_counts(parts, samples=options.samples)


def _scan_batches(
    options: TriageOptions, column: str, name: str, batches: Iterator[Any]
) -> Iterator[RefusalCounts]:
    total = RefusalCounts()
    for batch in batches:
        part = scan_batch(batch, options, column=column, name=name)
        total = merge_counts([total, part], samples=options.samples)
    yield total


def _worker_options(options: TriageOptions, environment: Mapping[str, str] | None) -> TriageOptions:
    """Return the options for a worker, whose folder and environment differ."""
    variables = os.environ if environment is None else environment
    named = variables.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep)
    paths = (*options.registries, *filter(None, named))
    return options._replace(registries=tuple(map(os.path.abspath, paths)))

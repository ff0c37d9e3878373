"""Detection and guards over Arrow batches: columns of results beside a column of texts.

The functions take and return a record batch or a table, with one row for each row. So they run in
this process, in `map_batches` of Ray Data, and on a data frame of Spark, with the same results. An
engine runs a batch again if its worker dies, and gets the same rows.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import msgspec

from demur.codes.vocabulary import Surface
from demur.detect.detector import detect_batch
from demur.engines import import_package
from demur.errors import InputError
from demur.guards.builtin import check, read_config
from demur.model.finding import Finding

_DETECTION_TYPES = {"confidence": "float64", "truncated": "bool_"}


def add_detections(
    batch: Any, response: str = "response", prompt: str | None = None, *, prefix: str = "refusal_"
) -> Any:
    """Return the batch with what `detect_refusal` says about the texts of a column.

    It adds `refusal_kind`, `refusal_confidence`, `refusal_code`, `refusal_language`,
    `refusal_basis` and `refusal_truncated`, all null where the text is. `prompt` names the column
    of prompts.

    Raises:
        InputError: There is no such column, it does not hold texts, or a new column exists already.
        MissingExtraError: Arrow is not installed.
    """
    pa = import_package("pyarrow")
    columns = {
        f"{prefix}{name}": pa.array(values, getattr(pa, _DETECTION_TYPES.get(name, "string"))())
        for name, values in detect_batch(batch, response, prompt).items()
    }
    return _append_columns(batch, columns)


def add_findings(
    batch: Any,
    surface: Surface | str,
    column: str = "text",
    *,
    config: Any = None,
    into: str = "findings",
) -> Any:
    """Return the batch with what the guards of a surface find in the events of a column.

    An event is a text or, as a struct, the surface's own value. `findings` holds a list of `code`,
    `action`, `start`, `end`, `detail` and `evidence`, as JSON, for each row. It is null where the
    event is, and where the guards could not check it: then `findings_problem` says why. Treat such
    rows as not checked, not as harmless. Guards do not decide.

    Raises:
        InputError: There is no such surface or column, the config cannot be used, or a new column
            exists already.
        InputTypeError: The surface takes no events of this type.
        GuardError: An installed guard cannot be used.
        MissingExtraError: Arrow is not installed.
    """
    pa = import_package("pyarrow")
    if column not in batch.schema.names:
        known = ", ".join(batch.schema.names)
        raise InputError(f"the batch has no column `{column}`", help=f"its columns: {known}")
    # Once for all rows: reading a config may compile rules.
    settings = read_config(surface, config)
    rows, problems = [], []
    for event in batch.column(column).to_pylist():
        found, problem = None, None
        try:
            if event is not None:
                found = list(map(_finding_to_row, check(surface, event, settings)))
        except InputError as error:
            # One row must not end a job of millions.
            problem = error.problem
        rows.append(found)
        problems.append(problem)
    columns = {
        into: pa.array(rows, _findings_type(pa)),
        f"{into}_problem": pa.array(problems, pa.string()),
    }
    return _append_columns(batch, columns)


def _findings_type(pa: Any) -> Any:
    fields = [(name, pa.string()) for name in ("code", "action")]
    fields += [(name, pa.int64()) for name in ("start", "end")]
    return pa.list_(pa.struct(fields + [(name, pa.string()) for name in ("detail", "evidence")]))


def _finding_to_row(finding: Finding) -> dict[str, Any]:
    span = finding.span
    return {
        "code": str(finding.code),
        "action": finding.action.value,
        "start": None if span is None else span.start,
        "end": None if span is None else span.end,
        "detail": finding.detail,
        "evidence": msgspec.json.encode(finding.evidence, order="sorted").decode(),
    }


def _append_columns(batch: Any, columns: Mapping[str, Any]) -> Any:
    """Return a batch or table with further columns."""
    for name, values in columns.items():
        if name in batch.schema.names:
            help_text = "choose another name with `prefix=` or `into=`"
            raise InputError(f"the batch has a column `{name}` already", help=help_text)
        batch = batch.append_column(name, values)
    return batch


def extend_frame(frame: Any, add_columns: Callable[..., Any], **options: Any) -> Any:
    """Return a Spark data frame with the columns that `add_columns` adds to each of its batches.

    `add_columns` is `add_detections` or `add_findings`, and `options` are its other arguments. The
    columns are checked here, on an empty batch; the work is done when Spark needs the rows. demur
    must be installed on every worker.

    Raises:
        InputError: The frame lacks a column, or an option cannot be used.
        MissingExtraError: Spark or Arrow is not installed.
    """
    pa = import_package("pyarrow")
    import_package("pyspark")
    types = import_module("pyspark.sql.pandas.types")
    empty = pa.Table.from_batches([], types.to_arrow_schema(frame.schema))
    schema = types.from_arrow_schema(add_columns(empty, **options).schema)
    return frame.mapInArrow(partial(_extend_batches, partial(add_columns, **options)), schema)


def _extend_batches(add_columns: Callable[[Any], Any], batches: Iterator[Any]) -> Iterator[Any]:
    return map(add_columns, batches)

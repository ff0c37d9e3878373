"""Triage on a cluster: the same two functions, run by Spark or Ray, and the same counts."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, Any

from demur.codes.default import ENVIRONMENT_VARIABLE
from demur.engines.groups import split_into_groups
from demur.engines.ray import run_on_ray
from demur.engines.spark import map_frame, run_on_spark
from demur.errors import InputError
from demur.triage.arrow import scan_batch
from demur.triage.counts import RefusalCounts, merge_counts
from demur.triage.inputs import STDIN, LogPiece, TriagePlan, plan_work
from demur.triage.options import TriageOptions
from demur.triage.pieces import scan_piece
from demur.triage.scan import looks_structured

__all__ = ["CLUSTERS", "triage_dataframe", "triage_on_cluster"]

GroupWork = Callable[[tuple[LogPiece, ...]], RefusalCounts]
CLUSTERS: dict[
    str, Callable[[GroupWork, Sequence[tuple[LogPiece, ...]]], Iterator[RefusalCounts]]
] = {
    "spark": run_on_spark,
    "ray": run_on_ray,
}
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

    Workers must see files and registries under the same paths. Standard input is read by this
    process.

    Raises:
        InputError: The engine is unknown.
        MissingExtraError: The engine is not installed.
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
        names = ", ".join(frame.columns)
        raise InputError(
            f"the data frame has no text or binary column `{column}`", help=f"its columns: {names}"
        )
    lines = frame.select(column)
    form = options.format
    if form == "auto":
        form = "json" if looks_structured(_sample_lines(lines)) else "text"
    known = _worker_options(options, environment)._replace(format=form)
    parts = map_frame(partial(_scan_batches, known, column, name), lines)
    return merge_counts(parts, samples=options.samples)


def _sample_lines(lines: Any) -> bytes:
    values = (row[0] for row in lines.head(_HEAD_LINES))
    texts = (each.encode() if isinstance(each, str) else bytes(each or b"") for each in values)
    return b"\n".join([*texts, b""])


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

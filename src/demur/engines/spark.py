"""Run a function on Spark: over pieces of work, or over the rows of a data frame."""

import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from demur.engines.failure import engine_failure, import_package

__all__ = ["map_frame", "run_on_spark"]

Item = TypeVar("Item")
Result = TypeVar("Result")
_RESULT_SCHEMA = "result binary"


def run_on_spark(
    function: Callable[[Item], Result], items: Sequence[Item], *, session: Any = None
) -> Iterator[Result]:
    """Yield the function's result for each item, one task per item, after all have finished.

    Without `session`, the active session is used; if there is none, one is started as
    `spark-submit` or the environment configure it (by default on this machine) and stopped
    afterwards. Spark pickles the function by name, so it must be defined in a module.

    Raises:
        MissingExtraError: Spark is not installed.
        EngineError: The job failed.
    """
    import_package("pyspark")
    if not items:
        return
    with _spark_session(session) as spark, _translate_errors():
        tasks = spark.sparkContext.parallelize(list(items), len(items))
        results = tasks.map(function).collect()
    yield from results


def map_frame(
    function: Callable[[Iterator[Any]], Iterable[Result]], frame: Any
) -> Iterator[Result]:
    """Yield the function's results for each partition, passed as Arrow batches.

    The frame may belong to a remote session (Spark Connect).

    Raises:
        EngineError: The job failed.
    """
    with _translate_errors():
        rows = frame.mapInArrow(partial(_pickle_results, function), _RESULT_SCHEMA).collect()
    for row in rows:
        yield pickle.loads(bytes(row[0]))  # noqa: S301 - written by our own workers


def _pickle_results(
    function: Callable[[Iterator[Any]], Iterable[Result]], batches: Iterator[Any]
) -> Iterator[Any]:
    pa = import_package("pyarrow")
    for result in function(batches):
        yield pa.record_batch({"result": pa.array([pickle.dumps(result)], pa.binary())})


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn the errors of a failed job, from Python or from Java, into an EngineError."""
    known = (
        import_package("pyspark.errors").PySparkException,
        import_package("py4j.protocol").Py4JError,
    )
    try:
        yield
    except known as error:
        raise engine_failure("Spark", error) from error


@contextmanager
def _spark_session(existing: Any) -> Iterator[Any]:
    sql = import_package("pyspark.sql")
    active = existing or sql.SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    session = sql.SparkSession.builder.appName("demur").getOrCreate()
    try:
        context = session.sparkContext
        context.setLogLevel("ERROR")
        if context.master.startswith("local"):
            # The default is the first Python on the path, which may not have demur.
            context.pythonExec = sys.executable
        yield session
    finally:
        session.stop()

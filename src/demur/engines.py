"""Run one function over many items on Spark or Ray.

The engines know nothing about the work. demur must be installed on every worker.
"""

import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from demur.errors import DemurError, MissingExtraError

_MAX_ERROR_LENGTH = 300
_INSTALL = {
    "pyarrow": "pip install 'demur[arrow]'",
    "pyspark": "pip install 'pyspark[sql]'",
    "ray": "pip install ray",
}


class EngineError(DemurError):
    """An engine could not finish the work."""


def import_package(package: str) -> Any:
    """Import and return a package.

    Raises:
        MissingExtraError: The package is not installed.
    """
    try:
        return import_module(package)
    except ImportError as error:
        help_text = _INSTALL.get(package.partition(".")[0])
        raise MissingExtraError(f"this needs the `{package}` package", help=help_text) from error


def engine_failure(engine: str, error: Exception) -> EngineError:
    """Return the error to raise when an engine failed."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Engines print whole stacks; the last line with an error is the worker's own.
    message = next((line for line in reversed(lines) if "Error: " in line), (lines or ["?"])[0])
    help_text = "demur must be installed on every worker, with the same version of Python"
    return EngineError(f"{engine} could not finish: {message[:_MAX_ERROR_LENGTH]}", help=help_text)


Item = TypeVar("Item")
# Enough to keep a large cluster busy, few enough for one machine to collect the results.
MAX_TASKS = 2_000


def split_into_groups(items: Sequence[Item], max_groups: int = MAX_TASKS) -> list[tuple[Item, ...]]:
    """Split the items into at most this many groups, with neighbours in different groups."""
    number = min(len(items), max_groups)
    return [tuple(items[start::number]) for start in range(number)]


Result = TypeVar("Result")
_TASKS_PER_CPU = 4


def run_on_ray(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the function's result for each item, in the order in which tasks finish.

    It runs on the cluster that this process is connected to, else on the one in `RAY_ADDRESS`,
    else on this machine. A connection that was opened here is closed here. Ray pickles the
    function by name, so it must be defined in a module.

    Raises:
        MissingExtraError: Ray is not installed.
        EngineError: A task failed, retries included.
    """
    ray = import_package("ray")
    if not items:
        return
    started = not ray.is_initialized()
    if started:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        yield from _run_tasks(ray, function, items)
    except ray.exceptions.RayError as error:
        raise engine_failure("Ray", error) from error
    finally:
        if started:
            ray.shutdown()


def _run_tasks(
    ray: Any, function: Callable[[Item], Result], items: Sequence[Item]
) -> Iterator[Result]:
    def call(item: Item) -> Result:
        return function(item)

    task = ray.remote(call)
    most = _TASKS_PER_CPU * max(int(ray.cluster_resources().get("CPU", 1)), 1)
    waiting, running = iter(items), []
    while True:
        for item in waiting:
            running.append(task.remote(item))
            if len(running) >= most:
                break
        if not running:
            return
        done, running = ray.wait(running)
        yield from ray.get(done)


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


_OnBatches = Callable[[Iterator[Any]], Iterable[Result]]


def map_frame(function: _OnBatches[Result], frame: Any) -> Iterator[Result]:
    """Yield the function's results for each partition, passed as Arrow batches.

    The frame may belong to a remote session (Spark Connect).

    Raises:
        EngineError: The job failed.
    """
    with _translate_errors():
        rows = frame.mapInArrow(partial(_pickle_results, function), _RESULT_SCHEMA).collect()
    for row in rows:
        yield pickle.loads(bytes(row[0]))  # noqa: S301 - written by our own workers


def _pickle_results(function: _OnBatches[Any], batches: Iterator[Any]) -> Iterator[Any]:
    pa = import_package("pyarrow")
    for result in function(batches):
        yield pa.record_batch({"result": pa.array([pickle.dumps(result)], pa.binary())})


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn the errors of a failed job, from Python or from Java, into an EngineError."""
    python = import_package("pyspark.errors").PySparkException
    java = import_package("py4j.protocol").Py4JError
    try:
        yield
    except (python, java) as error:
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

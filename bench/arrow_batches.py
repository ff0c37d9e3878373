"""Detection and guards over Arrow batches, on one core and on all, in one process, Ray and Spark.

Efficiency is the time on one core, divided by the time on all cores and their number. Each run is a
process of its own, in turns with the others, and is timed once its workers have compiled the rules.
Engines that are not installed are left out; `make test-cluster` sets up an environment with both.
"""

import argparse
import os
import random  # noqa: TID251 - a bench makes its input up, from a fixed seed
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any

from demur.engines import import_package
from demur.evals.arrow_batches import add_detections, add_findings, extend_frame

BATCH = 500
CORES = os.cpu_count() or 1
# Threads of the linear algebra in each worker would only wait for each other.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
BEGINNINGS = (
    "Sure! Here is what you asked for.",
    "I'm sorry, but I can't help with that.",
    "Here are three ideas for the weekend:",
    "I cannot provide that information, but here is something else.",
    "The function returns a list of the names.",
)
_TEXT = (
    "the a of and to in for with on at from by about into over after garden market river report"
    " table window list value order letter music summer winter question answer number city train"
    " walk write read open close bring take make find give show tell ask use work call try"
)
WORDS = _TEXT.split()


def make_table(rows: int) -> Any:
    """Return made-up prompts and answers of some hundred characters."""
    pa = import_package("pyarrow")
    source = random.Random(1)  # noqa: S311 - made-up text

    def words(number: int) -> str:
        return " ".join(source.choices(WORDS, k=number))

    prompts = [f"Please {words(30)}?" for _ in range(rows)]
    answers = [f"{source.choice(BEGINNINGS)} {words(90)}." for _ in range(rows)]
    return pa.table({"prompt": prompts, "answer": answers})


def add_both(batch: Any) -> Any:
    """Return the batch with detections and findings."""
    return add_findings(add_detections(batch, "answer", "prompt"), "input", "prompt")


def run_processes(cores: int) -> Callable[[Any], int]:
    """Return a job on plain processes; one core means this process."""
    if cores == 1:
        return lambda table: sum(len(add_both(one)) for one in table.to_batches(BATCH))
    pool = ProcessPoolExecutor(cores)
    return lambda table: sum(map(len, pool.map(add_both, table.to_batches(BATCH))))


def run_ray(cores: int) -> Callable[[Any], int]:
    """Return a job on Ray."""
    ray = import_package("ray")
    data = import_package("ray.data")
    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False, logging_level="error")
    data.DataContext.get_current().enable_progress_bars = False

    def job(table: Any) -> int:
        dataset = data.from_arrow(table).repartition(8 * cores)
        for add in (
            partial(add_detections, response="answer", prompt="prompt"),
            partial(add_findings, surface="input", column="prompt"),
        ):
            dataset = dataset.map_batches(add, batch_format="pyarrow", batch_size=BATCH)
        return int(dataset.materialize().count())

    return job


def run_spark(cores: int) -> Callable[[Any], int]:
    """Return a job on Spark."""
    sql = import_package("pyspark.sql")
    builder = sql.SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    arrow = {"enabled": "true", "maxRecordsPerBatch": str(BATCH)}
    for name, value in arrow.items():
        builder = builder.config(f"spark.sql.execution.arrow.pyspark.{name}", value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.sparkContext.pythonExec = sys.executable

    def job(table: Any) -> int:
        frame = session.createDataFrame(table).repartition(8 * cores)
        frame = extend_frame(frame, add_detections, response="answer", prompt="prompt")
        frame = extend_frame(frame, add_findings, surface="input", column="prompt")
        # A count alone would let Spark skip the columns.
        frame.write.format("noop").mode("overwrite").save()
        return len(table)

    return job


ENGINES = {"processes": run_processes, "ray": run_ray, "spark": run_spark}
PACKAGES = {"processes": "pyarrow", "ray": "ray", "spark": "pyspark"}


def measure(engine: str, cores: int, rows: int) -> None:
    """Print the seconds of a job whose workers are warm."""
    job, table = ENGINES[engine](cores), make_table(rows)
    job(table.slice(0, min(rows, 2 * cores * BATCH)))
    start = time.perf_counter()
    assert job(table) == rows
    print(time.perf_counter() - start)


def main() -> None:
    """Print the table, or the seconds of one job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "CORES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.one[0], int(options.one[1]), options.rows)
        return
    jobs = [
        (engine, cores) for engine in ENGINES if find_spec(PACKAGES[engine]) for cores in (1, CORES)
    ]
    taken: dict[tuple[str, int], list[float]] = {job: [] for job in jobs}
    print(f"load average {os.getloadavg()[0]:.1f} on {CORES} cores, {options.rows:,} rows")
    for _ in range(options.rounds):
        for engine, cores in jobs:
            command = [sys.executable, __file__, "--rows", str(options.rows)]
            command += ["--one", engine, str(cores)]
            ran = subprocess.run(
                command, check=True, capture_output=True, text=True, env=ONE_THREAD
            )
            taken[engine, cores].append(float(ran.stdout.split()[-1]))
    print(f"{'engine':12}{'rows/s, one core':>18}{f'rows/s, {CORES} cores':>18}{'efficiency':>12}")
    for engine in dict.fromkeys(engine for engine, _ in jobs):
        one, every = (statistics.median(taken[engine, cores]) for cores in (1, CORES))
        rates = (options.rows / seconds for seconds in (one, every))
        print(
            f"{engine:12}{next(rates):>18,.0f}{next(rates):>18,.0f}{one / (CORES * every):>12.2f}"
        )


if __name__ == "__main__":
    main()

"""Detection and guards over Arrow batches, on one core and on all, in one process, Ray and Spark.

The ratio is the efficiency: the time on one core, divided by the time on all cores and their
number. Each run is a process of its own, in turns with the others, and reads Parquet files. It may
use no core but its own, and is timed once its workers have compiled the rules.
Engines that are not installed are left out; `make test-cluster` sets up an environment with both.
"""

import argparse
import os
import random  # noqa: TID251 - a bench makes its input up, from a fixed seed
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from table import Table

from demur.engines import import_package
from demur.evals.arrow_batches import add_detections, add_findings, extend_frame

BATCH = 500
CORES = len(os.sched_getaffinity(0))
FILES = 16 * CORES
# The efficiency that an engine should reach.
_AIM = 0.85
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


def write_files(folder: Path, rows: int) -> list[str]:
    """Write made-up prompts and answers of some hundred characters; return the Parquet files."""
    pa, parquet = import_package("pyarrow"), import_package("pyarrow.parquet")
    source = random.Random(1)  # noqa: S311 - made-up text

    def words(number: int) -> str:
        return " ".join(source.choices(WORDS, k=number))

    folder.mkdir()
    paths = [str(folder / f"{number:03}.parquet") for number in range(FILES)]
    for path in paths:
        prompts = [f"Please {words(30)}?" for _ in range(rows // FILES)]
        answers = [f"{source.choice(BEGINNINGS)} {words(90)}." for _ in prompts]
        parquet.write_table(pa.table({"prompt": prompts, "answer": answers}), path)
    return paths


def add_both(batch: Any) -> Any:
    """Return the batch with detections and findings."""
    return add_findings(add_detections(batch, "answer", "prompt"), "input", "prompt")


def judge_file(path: str) -> int:
    """Judge the rows of a file; return how many there are."""
    file = import_package("pyarrow.parquet").ParquetFile(path)
    return sum(len(add_both(batch)) for batch in file.iter_batches(BATCH))


def run_processes(cores: int) -> Callable[[list[str]], int]:
    """Return a job on plain processes; one core means this process."""
    if cores == 1:
        return lambda paths: sum(map(judge_file, paths))
    pool = ProcessPoolExecutor(cores)
    return lambda paths: sum(pool.map(judge_file, paths))


def run_ray(cores: int) -> Callable[[list[str]], int]:
    """Return a job on Ray."""
    ray = import_package("ray")
    data = import_package("ray.data")
    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False, logging_level="error")
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    # With it, Ray runs one task at a time where there are few cores.
    context.op_resource_reservation_enabled = False
    read_table = import_package("pyarrow.parquet").read_table

    def job(paths: list[str]) -> int:
        # A block for each file: Ray's own reader would put these small ones together.
        dataset = data.from_arrow(list(map(read_table, paths)))
        for add in (
            partial(add_detections, response="answer", prompt="prompt"),
            partial(add_findings, surface="input", column="prompt"),
        ):
            dataset = dataset.map_batches(add, batch_format="pyarrow", batch_size=BATCH)
        return int(dataset.materialize().count())

    return job


def run_spark(cores: int) -> Callable[[list[str]], int]:
    """Return a job on Spark."""
    sql = import_package("pyspark.sql")
    builder = sql.SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    # A task for each file: Spark would put these small ones together.
    builder = builder.config("spark.sql.files.openCostInBytes", str(2**27))
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.sparkContext.pythonExec = sys.executable

    def job(paths: list[str]) -> int:
        frame = session.read.parquet(*paths)
        rows = frame.count()
        frame = extend_frame(frame, add_detections, response="answer", prompt="prompt")
        frame = extend_frame(frame, add_findings, surface="input", column="prompt")
        # A count alone would let Spark skip the columns.
        frame.write.format("noop").mode("overwrite").save()
        return int(rows)

    return job


ENGINES = {"processes": run_processes, "ray": run_ray, "spark": run_spark}
PACKAGES = {"processes": "pyarrow", "ray": "ray", "spark": "pyspark"}


def measure(engine: str, cores: int, rows: int) -> None:
    """Print the seconds of a job whose workers are warm."""
    # Without this, the driver of an engine would use another core, and so would the JVM.
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    with tempfile.TemporaryDirectory() as folder:
        job = ENGINES[engine](cores)
        # Enough that a worker that starts late finds work too, and compiles its rules now.
        job(write_files(Path(folder, "warming"), FILES * BATCH // 2))
        paths = write_files(Path(folder, "rows"), rows)
        start = time.perf_counter()
        assert job(paths) == rows // FILES * FILES
        print(time.perf_counter() - start)


def main() -> int:
    """Print the table, or the seconds of one job; the status says whether all aims were met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "CORES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rows < FILES:
        parser.error(f"--rows must be {FILES} or more")
    if options.one:
        measure(options.one[0], int(options.one[1]), options.rows)
        return 0
    jobs = [
        (engine, cores) for engine in ENGINES if find_spec(PACKAGES[engine]) for cores in (1, CORES)
    ]
    taken: dict[tuple[str, int], list[float]] = {job: [] for job in jobs}
    print(f"load average {os.getloadavg()[0]:.1f} on {CORES} cores, {options.rows:,} rows")
    for _ in range(options.rounds):
        for engine, cores in jobs:
            command = [sys.executable, __file__, "--rows", str(options.rows)]
            command += ["--one", engine, str(cores)]
            ran = subprocess.run(command, check=True, capture_output=True, text=True)
            taken[engine, cores].append(float(ran.stdout.split()[-1]))
    table = Table("engine", "one core", f"{CORES} cores")
    for engine in dict.fromkeys(engine for engine, _ in jobs):
        one, every = (statistics.median(taken[engine, cores]) for cores in (1, CORES))
        judged = options.rows // FILES * FILES
        rates = [f"{judged / seconds:,.0f}/s" for seconds in (one, every)]
        table.row(engine, *rates, ratio=one / (CORES * every), at_least=_AIM)
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())

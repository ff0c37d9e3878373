"""Triage on Spark and Ray in local mode, on one made-up log; run in `.venv-cluster`.

Spark is held against its own regular expressions over the same lines, looking for the same
things, and Ray against this machine alone. Every job of ours must give exactly what the
generator wrote. Jobs are timed when the engines are up and have run once; what it takes to
start them is told apart. `--big` takes a log of 512 MB.
"""

import argparse
import os
import random  # noqa: TID251 - a bench makes its input up, from a fixed seed
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from table import Table
from triage import Log, mixed, write

from demur.codes.loading import default_registry
from demur.engines import import_package
from demur.triage.cluster import triage_dataframe, triage_on_cluster
from demur.triage.counts import RefusalCounts, TriageOptions
from demur.triage.run import triage_logs

ROUNDS = 3
CORES = 2


def timed(job: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the seconds of the quickest of some runs."""
    return min(_once(job) for _ in range(rounds))


def _once(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def check(counts: RefusalCounts, log: Log) -> RefusalCounts:
    """Return the counts, if they are what was written."""
    found: dict[tuple[str, str], int] = {}
    for key, number in counts.rows.items():
        found[key.code, key.kind] = found.get((key.code, key.kind), 0) + number
    if found != dict(log.truth):
        sys.exit("the counts are wrong")
    return counts


def native(frame: Any) -> int:
    """Return how many refusals Spark's own functions find, by what they say."""
    functions = import_package("pyspark.sql.functions")
    phrases = "|".join(map(re.escape, sorted(default_registry().phrases)))
    code = functions.regexp_extract("value", "REFUSED: ([A-Z_0-9]+)", 1)
    phrase = functions.lower(functions.regexp_extract("value", f"(?i)({phrases})", 1))
    either = functions.when(code != "", code).otherwise(phrase)
    rows = frame.select(either.alias("said")).where("said != ''").groupBy("said").count().collect()
    return sum(row["count"] for row in rows)


def on_spark(table: Table, log: Log, warm: Log) -> None:
    """Print what Spark takes."""
    sql = import_package("pyspark.sql")
    start = time.perf_counter()
    builder = sql.SparkSession.builder.master(f"local[{CORES}]")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.sparkContext.pythonExec = sys.executable
    session.range(1).count()
    print(f"Spark: {time.perf_counter() - start:.1f} s to start and run one job")

    def frame(of: Log) -> Any:
        return session.read.text(str(of.path))

    def splits(of: Log) -> RefusalCounts:
        return check(triage_on_cluster([str(of.path)], TriageOptions(), engine="spark"), of)

    def lines(of: Log) -> RefusalCounts:
        return check(triage_dataframe(frame(of), "value", TriageOptions()), of)

    for job in (splits, lines):
        job(warm)
    print(
        f"Spark's own functions find {native(frame(warm))} of {sum(warm.truth.values())} refusals"
    )
    theirs = timed(lambda: native(frame(log)), 1)
    for name, job in (("files, by their ranges", splits), ("a data frame of lines", lines)):
        mine = timed(lambda job=job: job(log))  # type: ignore[misc]
        table.row(
            f"Spark, {name}: seconds",
            f"{mine:.2f}",
            f"{theirs:.2f}",
            ratio=theirs / mine,
            at_least=10,
        )
    session.stop()


def on_ray(table: Table, log: Log, warm: Log) -> None:
    """Print what Ray takes."""
    ray = import_package("ray")
    # Before Ray starts threads: a program that has some cannot fork.
    theirs = timed(lambda: check(triage_logs([str(log.path)], TriageOptions(), jobs=CORES), log))
    start = time.perf_counter()
    ray.init(num_cpus=CORES, include_dashboard=False, log_to_driver=False, logging_level="error")

    def job(of: Log) -> RefusalCounts:
        return check(triage_on_cluster([str(of.path)], TriageOptions(), engine="ray"), of)

    job(warm)
    print(f"Ray: {time.perf_counter() - start:.1f} s to start and run one job")
    mine = timed(lambda: job(log))
    table.row(
        "Ray, beside this machine alone: seconds",
        f"{mine:.2f}",
        f"{theirs:.2f}",
        ratio=mine / theirs,
        at_most=2,
    )
    ray.shutdown()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--big", action="store_true", help="a log of 512 MB")
    size = (512 if parser.parse_args().big else 128) * 1_000_000
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = write(folder / "mixed.log", mixed(random.Random(1)), size)  # noqa: S311 - made-up text
        warm = write(folder / "small.log", mixed(random.Random(2)), 1)  # noqa: S311 - made-up text
        table = Table("triage on a cluster", "demur", "theirs")
        on_ray(table, log, warm)
        on_spark(table, log, warm)
    if table.missed:
        print(f"{table.missed} aims missed")


if __name__ == "__main__":
    main()

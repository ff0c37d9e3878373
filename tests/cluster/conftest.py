"""Spark and Ray in local mode."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest


def _require(engine: str) -> None:
    """Skip a test whose engine is not there."""
    package = {"spark": "pyspark"}.get(engine, engine)
    pytest.importorskip(package, reason=f"{package} is not installed: make test-cluster")
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java")


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Lend a session of two cores, which tries a task up to four times."""
    _require("spark")
    sql = __import__("pyspark.sql", fromlist=["sql"])
    builder = sql.SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.pythonExec = __import__("sys").executable
    yield session
    session.stop()


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Lend a cluster of two cores."""
    _require("ray")
    module = __import__("ray")
    module.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield module
    module.shutdown()

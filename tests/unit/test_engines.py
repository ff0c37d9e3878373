"""The adapters, on stand-ins for the engines that run everything at once and here.

`make test-cluster` runs them on the real ones.
"""

# ruff: noqa: D102, N802, N815 - the stand-ins have the names of what they stand for

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from demur.engines import (
    EngineError,
    engine_failure,
    map_frame,
    run_on_ray,
    run_on_spark,
    split_into_groups,
)
from demur.errors import InputError, MissingExtraError
from demur.triage.cluster import triage_dataframe, triage_on_cluster
from demur.triage.counts import RefusalCounts, TriageOptions
from demur.triage.run import triage_logs

pa = pytest.importorskip("pyarrow")


class PySparkError(Exception):
    pass


class RayError(Exception):
    pass


class Ray(ModuleType):
    """A cluster of one core that keeps what was asked of it."""

    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(self, *, connected: bool = False) -> None:
        super().__init__("ray")
        self.connected = connected
        self.most = 0
        self.calls: list[str] = []

    def is_initialized(self) -> bool:
        return self.connected

    def init(self, **_: object) -> None:
        self.calls.append("init")

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    @staticmethod
    def cluster_resources() -> dict[str, float]:
        return {"CPU": 1.0}

    @staticmethod
    def remote(function: Callable[..., Any]) -> Any:
        return SimpleNamespace(remote=lambda item: (function, item))

    def wait(self, running: list[Any]) -> tuple[list[Any], list[Any]]:
        self.most = max(self.most, len(running))
        return running[-1:], running[:-1]

    def get(self, tasks: list[Any]) -> list[Any]:
        try:
            return [function(item) for function, item in tasks]
        except ValueError as error:
            raise RayError(f"a stack\nValueError: {error}\n") from error


class Context:
    master = "local[*]"
    pythonExec = "python3"

    def setLogLevel(self, level: str) -> None:
        assert level == "ERROR"

    def parallelize(self, items: list[Any], number: int) -> Any:
        assert len(items) == number
        return SimpleNamespace(map=lambda function: Job(function, items))


class Job:
    def __init__(self, function: Callable[..., Any], items: Sequence[Any]) -> None:
        # What cannot travel fails here as it would there.
        self._function = pickle.loads(pickle.dumps(function))  # noqa: S301 - written above
        self._items = items

    def collect(self) -> list[Any]:
        try:
            return [self._function(item) for item in self._items]
        except ValueError as error:
            raise PySparkError(f"ValueError: {error}") from error


class Frame:
    """A frame of one column, in as many partitions as there are lists."""

    columns = ("line",)
    dtypes = (("line", "string"),)

    def __init__(self, *partitions: list[str | None]) -> None:
        self._partitions = partitions

    def select(self, column: str) -> "Frame":
        assert column == "line"
        return self

    def head(self, number: int) -> list[tuple[str | None]]:
        return [(line,) for part in self._partitions for line in part][:number]

    def mapInArrow(self, function: Callable[..., Any], schema: str) -> Any:
        assert schema == "result binary"
        rows = [
            (value,)
            for part in self._partitions
            for batch in function(iter([pa.record_batch({"line": pa.array(part, pa.string())})]))
            for value in batch.column(0).to_pylist()
        ]
        return SimpleNamespace(collect=lambda: rows)


class Session:
    active: "Session | None" = None

    def __init__(self) -> None:
        self.sparkContext = Context()
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    @classmethod
    def getActiveSession(cls) -> "Session | None":
        return cls.active


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    module = Ray()
    monkeypatch.setitem(__import__("sys").modules, "ray", module)
    return module


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    session = Session()
    started = SimpleNamespace(getOrCreate=lambda: session)
    builder = SimpleNamespace(appName=lambda _: started)
    known = SimpleNamespace(builder=builder, getActiveSession=Session.getActiveSession)
    modules: dict[str, dict[str, Any]] = {
        "pyspark": {},
        "pyspark.sql": {"SparkSession": known},
        "pyspark.errors": {"PySparkException": PySparkError},
        "py4j": {},
        "py4j.protocol": {"Py4JError": PySparkError},
    }
    for name, values in modules.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(__import__("sys").modules, name, module)
    yield session
    Session.active = None


def test_groups_hold_every_item_once_and_are_no_more_than_allowed() -> None:
    assert split_into_groups([]) == []
    assert split_into_groups([1, 2, 3]) == [(1,), (2,), (3,)]
    assert split_into_groups([1, 2, 3, 4, 5], max_groups=2) == [(1, 3, 5), (2, 4)]


def test_ray_is_started_and_ended_and_never_flooded(ray: Ray) -> None:
    assert sorted(run_on_ray(abs, range(-9, 0))) == list(range(1, 10))
    assert ray.calls == ["init", "shutdown"]
    assert ray.most == 4


def test_a_cluster_that_was_there_before_stays(ray: Ray) -> None:
    ray.connected = True

    assert list(run_on_ray(abs, [-1])) == [1]
    assert ray.calls == []


def test_nothing_to_do_starts_nothing(ray: Ray, spark: Session) -> None:
    assert list(run_on_ray(abs, [])) == list(run_on_spark(abs, [])) == []
    assert ray.calls == []
    assert not spark.stopped


def test_a_session_that_was_started_is_stopped_and_runs_this_python(spark: Session) -> None:
    assert list(run_on_spark(abs, [-1, -2])) == [1, 2]
    assert spark.stopped
    assert spark.sparkContext.pythonExec == __import__("sys").executable


def test_on_other_machines_python_is_what_the_cluster_says(spark: Session) -> None:
    spark.sparkContext.master = "spark://there"

    assert list(run_on_spark(abs, [-1])) == [1]
    assert spark.sparkContext.pythonExec == "python3"


def test_a_session_that_was_there_before_stays(spark: Session) -> None:
    Session.active = Session()

    assert list(run_on_spark(abs, [-1])) == list(run_on_spark(abs, [-1], session=spark)) == [1]
    assert not spark.stopped
    assert not Session.active.stopped


@pytest.mark.parametrize(("run", "name"), [(run_on_spark, "Spark"), (run_on_ray, "Ray")])
def test_what_fails_on_a_worker_is_told(run: Any, name: str, spark: Session, ray: Ray) -> None:
    with pytest.raises(EngineError, match=f"{name} could not finish: ValueError: invalid"):
        list(run(int, ["seven"]))
    assert spark.stopped == (name == "Spark")
    assert ray.calls == (["init", "shutdown"] if name == "Ray" else [])


def test_a_failure_without_words_is_told_all_the_same() -> None:
    assert engine_failure("Spark", RuntimeError()).problem == "Spark could not finish: ?"
    assert engine_failure("Ray", RuntimeError("x\ny")).problem == "Ray could not finish: x"


@pytest.mark.parametrize("engine", ["spark", "ray"])
def test_without_the_engine_it_says_what_to_install(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyspark", "ray"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    (tmp_path / "x.log").write_text("x\n")

    with pytest.raises(MissingExtraError, match=engine) as caught:
        triage_on_cluster([str(tmp_path)], TriageOptions(), engine=engine)
    assert str(caught.value.help).startswith("pip install ")


@pytest.mark.parametrize("engine", ["spark", "ray"])
def test_a_cluster_counts_what_this_machine_counts(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Session, ray: Ray
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("demur.triage.inputs._RANGE_SIZE", 30)
    (tmp_path / "x.log").write_text("REFUSED: RCE_RISK: x\ntoo many requests\n" * 20)
    stdin = tmp_path / "other"
    stdin.write_text("REFUSED: NOPE_NOPE: x\n")
    names, options = ["x.log", "none", "-"], TriageOptions(samples=2)

    with stdin.open("rb") as there, stdin.open("rb") as here:
        counts = triage_on_cluster(names, options, engine=engine, stdin=there)
        assert counts == triage_logs(names, options, jobs=1, stdin=here)
    assert counts.count_kinds() == 40
    assert spark.stopped != bool(ray.calls)


def test_an_engine_that_is_none_is_told() -> None:
    with pytest.raises(InputError, match="unknown engine `dask`"):
        triage_on_cluster([], TriageOptions(), engine="dask")


@pytest.mark.usefixtures("spark")
def test_a_frame_of_lines_counts_in_every_partition() -> None:
    frame = Frame(["REFUSED: RCE_RISK: x", None], ["too many requests", "REFUSED: RCE_RISK: y"])

    counts = triage_dataframe(frame, "line", TriageOptions())

    assert {key.code: number for key, number in counts.rows.items()} == {
        "RCE_RISK": 2,
        "RATE_LIMIT": 1,
    }


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("form", "number"), [("auto", 1), ("json", 1), ("text", 3)])
def test_whether_a_frame_holds_events_is_told_by_its_first_lines(form: str, number: int) -> None:
    event = '{"message": "ok", "prompt": "REFUSED: RCE_RISK: x"}'
    frame = Frame([event, event], ['{"message": "REFUSED: RATE_LIMIT: x"}'])

    counts = triage_dataframe(frame, "line", TriageOptions(format=form), environment={})

    assert counts.count_kinds("canonical") == number


def test_a_column_that_is_not_there_is_told() -> None:
    with pytest.raises(InputError, match="no text or binary column `text`"):
        triage_dataframe(Frame(), "text", TriageOptions())


@pytest.mark.usefixtures("spark")
def test_a_frame_without_partitions_counts_nothing() -> None:
    assert triage_dataframe(Frame(), "line", TriageOptions()) == RefusalCounts()
    assert list(map_frame(iter, Frame())) == []

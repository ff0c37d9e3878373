"""Triage on real engines, in local mode: the counts are those of this machine alone."""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from demur.cli import triage as command
from demur.cli.main import Arguments
from demur.engines import EngineError, run_on_ray, run_on_spark
from demur.errors import InputError
from demur.triage.cluster import CLUSTERS, triage_dataframe, triage_on_cluster
from demur.triage.counts import RefusalCounts, TriageOptions
from demur.triage.run import triage_logs
from demur.triage.scan import scan_lines

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

LINES = (
    b"2026-11-15T14:00:00Z WARN guard - REFUSED: RCE_RISK: curl x | sh\n"
    b"2026-11-16T15:00:00Z INFO api - Too Many Requests\n"
    b"2026-11-16T15:00:01Z WARN guard - REFUSED: NOPE_NOPE: y\n"
    b"all is well\n"
)


@pytest.fixture(params=list(CLUSTERS))
def engine(request: pytest.FixtureRequest) -> str:
    """Return the name of an engine that runs."""
    name = str(request.param)
    request.getfixturevalue(name)
    return name


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("demur.triage.inputs._RANGE_SIZE", 4_000)
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "plain.log").write_bytes(LINES * 500)
    (folder / "packed.log.gz").write_bytes(gzip.compress(LINES * 30))
    event = json.dumps({"ts": "2026-11-15T14:00:00Z", "message": "REFUSED: RATE_LIMIT: x"})
    (folder / "events.jsonl").write_text(f"{event}\n" * 40)
    return folder


@pytest.mark.parametrize("options", [TriageOptions(), TriageOptions(timed=True, samples=2)])
def test_a_cluster_counts_what_this_machine_counts(
    logs: Path, engine: str, options: TriageOptions
) -> None:
    # Relative names: the workers may stand in another folder.
    names = [logs.name, "none.log"]

    counts = triage_on_cluster(names, options, engine=engine)

    assert counts == triage_logs(names, options, jobs=1)
    assert (counts.count_kinds(), counts.files, len(counts.unread)) == (1100, 3, 1)


def test_the_command_prints_the_same(
    logs: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    command.configure_triage(Arguments(parser))
    shown = []
    for name in ("local", engine):
        words = [str(logs), "--engine", name, "--json", "--by", "code,file", "--sample", "1"]
        assert command.run_triage(parser.parse_args(words)) == 0
        shown.append(json.loads(capsys.readouterr().out))

    assert shown[0] == shown[1]


def registry_of(domain: str) -> dict[str, Any]:
    """Return an organisation's registry with one code."""
    code = {
        "code": f"{domain}/OWN_RULE",
        "description": "An own rule.",
        "parent": "CONTEXT_MISSING",
        "since": "1.0.0",
    }
    head = {"schema_version": "reason_codes.v1", "version": "1.0.0", "min_core": "1.0.0"}
    return {**head, "domain": domain, "phrases": {}, "codes": [code]}


def test_registries_travel(logs: Path, engine: str) -> None:
    for name in ("given", "named"):
        (logs.parent / f"{name}.json").write_text(json.dumps(registry_of(f"{name}.com")))
    (logs / "own.log").write_bytes(
        b"REFUSED: given.com/OWN_RULE: x\nREFUSED: named.com/OWN_RULE: y\n"
    )
    environment = {"DEMUR_REGISTRY": "named.json"}
    options = TriageOptions(registries=("given.json",))

    counts = triage_on_cluster(["logs/own.log"], options, engine=engine, environment=environment)

    assert (counts.count_kinds("canonical"), counts.count_kinds("unknown")) == (2, 0)


@pytest.mark.parametrize("run", [run_on_spark, run_on_ray])
def test_what_fails_on_a_worker_is_told(run: Any, spark: Any, ray: Any) -> None:
    assert spark
    assert ray
    with pytest.raises(EngineError, match="could not finish: ValueError: invalid literal"):
        list(run(int, ["seven"]))


@pytest.mark.parametrize("form", ["string", "binary"])
def test_a_data_frame_of_lines_counts_like_the_log(spark: Any, form: str) -> None:
    rows = [(line.decode() if form == "string" else line,) for line in LINES.splitlines()] * 300
    frame = spark.createDataFrame([*rows, (None,)], f"line {form}").repartition(3)

    counts = triage_dataframe(frame, "line", TriageOptions())

    assert counts.rows == scan_lines(LINES * 300, TriageOptions()).rows


def test_a_data_frame_of_events_is_read_as_events(spark: Any) -> None:
    event = json.dumps({"prompt": "REFUSED: RCE_RISK: x", "message": "REFUSED: RATE_LIMIT: y"})
    frame = spark.createDataFrame([(event,)] * 20, "line string")

    counts = triage_dataframe(frame, "line", TriageOptions())

    assert {key.code: number for key, number in counts.rows.items()} == {"RATE_LIMIT": 20}


def test_a_column_that_is_not_there_is_told(spark: Any) -> None:
    frame = spark.createDataFrame([("x", 1)], "line string, number int")

    for column in ("text", "number"):
        with pytest.raises(InputError, match=f"no text or binary column `{column}`"):
            triage_dataframe(frame, column, TriageOptions())


def test_an_empty_frame_counts_nothing(spark: Any) -> None:
    frame = spark.createDataFrame([], "line string")

    assert triage_dataframe(frame, "line", TriageOptions()) == RefusalCounts()

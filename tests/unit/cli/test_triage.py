import argparse
import contextlib
import csv
import io
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from demur.cli import triage as command
from demur.cli.main import Arguments, UsageError
from demur.errors import InputError, MissingExtraError

LOG = (
    b"2026-11-15T14:00:00Z WARN guard - REFUSED: RCE_RISK: curl x | sh\n"
    b"2026-11-16T15:00:00Z INFO api - Too Many Requests\n"
    b"2026-11-16T15:00:01Z WARN guard - REFUSED: NOPE_NOPE: \x1b[2J\n"
    b"all is well\n"
)


class Ran(NamedTuple):
    status: int
    out: str
    err: str


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Return that somebody looks at it."""
        return True


def triage(*words: object, stdin: bytes = b"", terminal: bool = False) -> Ran:
    parser = argparse.ArgumentParser()
    command.configure_triage(Arguments(parser))
    out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = command.run_triage(parser.parse_args([str(word) for word in words]))
    finally:
        sys.stdin = before
    return Ran(status, out.getvalue(), err.getvalue())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "app.log"
    path.write_bytes(LOG)
    return path


def test_the_table_tells_codes_unknown_codes_and_an_example(log: Path) -> None:
    ran = triage(log)
    lines = ran.out.splitlines()

    assert ran.status == 0
    assert lines[0].split() == ["code", "class", "canonical", "legacy", "total", "share"]
    assert lines[1].split() == ["RATE_LIMIT", "WORKFLOW_BLOCK", "0", "1", "1", "50.0%"]
    assert lines[2].split() == ["RCE_RISK", "HARD_BLOCK", "1", "0", "1", "50.0%"]
    assert "NOPE_NOPE" in ran.out
    assert "\x1b" not in ran.out
    assert lines[-1] == "2 refusals in 1 file, 186 B"


def test_standard_input_is_read(log: Path) -> None:
    ran = triage("-", "--json", stdin=log.read_bytes())

    assert json.loads(ran.out)["total"] == 2


def test_an_empty_log_has_no_table() -> None:
    assert triage("-").out == "0 refusals in 1 file, 0 B\n"


def test_a_limit_on_nothing_is_never_met(tmp_path: Path) -> None:
    for nothing in ("-", tmp_path):
        with pytest.raises(UsageError, match="no input, so demur checked no limit"):
            triage(nothing, "--fail-over", "RCE_RISK>0")


def test_groups_can_be_cut_to_the_largest(log: Path) -> None:
    ran = triage(log, "--by", "hour,code", "--top", 1)

    assert "2026-11-15T14" in ran.out
    assert "and 1 more" in ran.out


def test_the_largest_groups_are_shown_also_by_time() -> None:
    lines = (
        b"2026-11-15T14:00:00Z too many requests\n" + b"2026-11-16T14:00:00Z loop detected\n" * 2
    )
    ran = triage("-", "--by", "day,code", "--top", 1, stdin=lines)

    assert "2026-11-16" in ran.out
    assert "2026-11-15" not in ran.out


def test_a_surface_that_comes_from_the_code_is_said_so() -> None:
    ran = triage("-", "--by", "surface", stdin=b"REFUSED: LOOP_DETECTED: a\nREFUSED: RCE_RISK: b\n")

    assert ran.out.splitlines()[1].split()[0] == "tool_loop"
    assert ran.out.splitlines()[2].split()[0] == "unknown"
    assert "1 with the only surface of their code" in ran.out


def test_codes_are_rolled_up_by_parent_and_family() -> None:
    log = b"REFUSED: CONTENT_CBRN: a\nREFUSED: CONTENT_HATE: b\n"

    assert "CONTENT_OTHER" in triage("-", "--by", "parent", stdin=log).out
    assert "content" in triage("-", "--by", "family", stdin=log).out


UNMAPPED = (
    b"2026-11-15T14:00:00Z WARN guard - REFUSED: RCE_RISK: curl x | sh\n"
    b"2026-11-15T14:00:01Z WARN guard - REFUSED: rate limit exceeded\n"
    b"2026-11-15T14:00:02Z WARN guard - tool 'wipe' is forbidden for run 12\n"
    b"2026-11-15T14:00:03Z WARN guard - tool 'mail' is forbidden for run 7\n"
    b"2026-11-15T14:00:04Z INFO api - connection refused\n"
)


def test_lines_that_sound_like_a_refusal_are_suggested_on_request() -> None:
    ran = triage("-", "--suggest", stdin=UNMAPPED)
    rows = [line.split("  ") for line in ran.out.splitlines()]

    assert ["guard - tool … is forbidden for run …", "2"] in [row[:2] for row in rows]
    assert "guard - refused: rate limit exceeded" in ran.out
    assert "connection" not in ran.out
    assert ran.out.endswith("1 refusal in 1 file, 318 B\n")
    assert "forbidden" not in triage("-", stdin=UNMAPPED).out


def test_suggestions_in_json_have_the_nearest_code_and_an_example() -> None:
    said = json.loads(triage("-", "--suggest", "--json", stdin=UNMAPPED).out)

    assert (said["total"], said["unmapped"]) == (1, 3)
    assert [(one["number"], one["nearest"]) for one in said["suggestions"]] == [
        (2, "TOOL_NOT_ALLOWED"),
        (1, "RATE_LIMIT"),
    ]
    assert said["suggestions"][0]["sample"]["offset"] == UNMAPPED.index(b"2026-11-15T14:00:02Z")


def test_a_limit_of_suggestions_needs_them_to_be_counted() -> None:
    assert triage("-", "--suggest", "--fail-over", "unmapped>2", stdin=UNMAPPED).status == 3
    with pytest.raises(InputError, match="`unmapped` is not counted"):
        triage("-", "--fail-over", "unmapped>2", stdin=UNMAPPED)


def test_csv_and_json_hold_the_same_numbers(log: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(triage(log, "--csv", "--by", "day").out)))
    groups = json.loads(triage(log, "--json", "--by", "day").out)["groups"]

    assert [(row["day"], int(row["total"])) for row in rows] == [
        (group["day"], group["total"]) for group in groups
    ]


def test_bounds_leave_out_what_is_outside(log: Path) -> None:
    ran = triage(log, "--since", "2026-11-16", "--until", "2026-11-17")

    assert "RATE_LIMIT" in ran.out
    assert "RCE_RISK" not in ran.out


def test_refusals_without_a_time_left_out_by_since_are_counted() -> None:
    ran = triage("-", "--since", "2026-11-16", stdin=b"REFUSED: RCE_RISK: x\n")

    assert ran.out == "0 refusals in 1 file, 21 B; 1 refusal without a time left out\n"


def test_samples_are_shown_on_request(log: Path) -> None:
    samples = json.loads(triage(log, "--json", "--sample", 1).out)["samples"]

    assert [sample["code"] for sample in samples] == ["NOPE_NOPE", "RATE_LIMIT", "RCE_RISK"]


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (["RCE_RISK>0"], 3),
        (["RCE_RISK>1", "RATE_LIMIT>60%"], 0),
        (["SECRET_LEAK>0", "unknown>0"], 3),
        (["HARD_BLOCK>=1"], 3),
    ],
)
def test_limits_decide_the_exit_status(log: Path, limits: list[str], status: int) -> None:
    words = [word for limit in limits for word in ("--fail-over", limit)]
    ran = triage(log, *words)

    assert ran.status == status
    assert ("over the limit" in ran.err) is (status == 3)


def test_a_limit_that_is_none_is_an_error(log: Path) -> None:
    with pytest.raises(InputError, match="is not a limit"):
        triage(log, "--fail-over", "lots")


def test_unreadable_files_are_reported_at_the_end(log: Path, tmp_path: Path) -> None:
    ran = triage(tmp_path / "none.log", log)

    assert ran.status == 1
    assert ran.err == f"{tmp_path}/none.log: no such file or directory\n"
    assert ran.out.endswith("2 refusals in 1 file, 186 B; 1 not read or not to the end\n")


def test_json_lines_are_recognised_and_quotes_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "app.jsonl"
    path.write_text(
        '{"message": "prompt: REFUSED: RCE_RISK: x"}\n{"m": "REFUSED: RATE_LIMIT: y"}\n'
    )

    quoted, other = triage(path), triage(path, "--field", "m", "--format", "json")

    assert "quoted, not counted" in quoted.out
    assert quoted.out.endswith("0 refusals in 1 file, 76 B\n")
    assert "RATE_LIMIT" in other.out


def test_a_line_that_was_cut_is_counted() -> None:
    assert "1 line too long" in triage("-", stdin=b"x" * (5 << 20)).out


def test_counts_are_written_to_parquet(log: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "counts.parquet"

    assert triage(log, "--parquet", path).status == 0
    rows = parquet.read_table(path).to_pylist()
    assert {(row["code"], row["refusal_class"], row["hour"], row["number"]) for row in rows} == {
        ("RCE_RISK", "HARD_BLOCK", "2026-11-15T14", 1),
        ("RATE_LIMIT", "WORKFLOW_BLOCK", "2026-11-16T15", 1),
        ("NOPE_NOPE", None, "2026-11-16T15", 1),
    }


@pytest.mark.parametrize(
    "words",
    [["--by", "moon"], ["--top", "0"], ["--sample", "x"], ["--json", "--csv"], ["--jobs", "-1"]],
)
def test_wrong_arguments_are_usage_errors(
    log: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        triage(log, *words)
    assert ended.value.code == 2
    assert not capsys.readouterr().out


def test_following_prints_a_line_whenever_counts_change_until_stopped(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = iter([LOG, None])

    def sleep(_: float) -> None:
        data = next(steps)
        if data is None:
            raise KeyboardInterrupt
        with log.open("ab") as file:
            file.write(data)

    monkeypatch.setattr(time, "sleep", sleep)
    ran = triage(log, "--follow", "--json", "--fail-over", "RCE_RISK>1")

    assert [json.loads(line)["total"] for line in ran.out.splitlines()] == [2, 4]
    assert ran.status == 3


def test_a_terminal_is_cleared_for_each_table(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", stop)

    assert triage(log, "--follow", terminal=True).out.startswith("\x1b[H\x1b[2J")


def test_a_terminal_shows_progress(log: Path) -> None:
    assert triage(log, terminal=True).err.endswith("\r\x1b[K")


@pytest.mark.parametrize("option", ["--follow", "--jobs=2"])
def test_options_for_this_machine_are_refused_with_a_cluster_engine(option: str) -> None:
    with pytest.raises(InputError, match=f"`{option[:6]}.*` works on this machine only"):
        triage("x.log", "--engine", "ray", option)


def test_an_engine_that_is_not_installed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "x.log").write_bytes(LOG)

    with pytest.raises(MissingExtraError, match="`ray`"):
        triage(tmp_path / "x.log", "--engine", "ray")


def test_the_codes_of_organisations_in_the_settings_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acme_text: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    Path("acme.json").write_text(acme_text({"code": "acme.com/LATE"}))
    Path("app.log").write_text("REFUSED: acme.com/LATE: x\n")
    assert json.loads(triage("app.log", "--json").out)["unknown"] == 1
    Path("demur.toml").write_text('registries = ["acme.json"]')

    found = json.loads(triage("app.log", "--json", "--registry", "acme.json").out)
    assert (found["canonical"], found["unknown"]) == (1, 0)
    assert triage("app.log", "--fail-over", "acme.com/LATE>0").status == 3


@pytest.mark.parametrize("until", ["2026-11-14", "2026-11-15"])
def test_a_time_that_ends_before_it_begins_is_an_error(log: Path, until: str) -> None:
    with pytest.raises(InputError, match="period from --since to --until is empty"):
        triage(log, "--since", "2026-11-15", "--until", until)

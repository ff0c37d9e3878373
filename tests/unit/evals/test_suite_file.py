import json
from pathlib import Path
from typing import Any

import pytest
from support.clean_store import no_problem

from demur.errors import Problem
from demur.evals import suite_file
from demur.evals.suite_file import SuiteHeader, open_lines, read_file, read_json_lines, read_yaml
from demur.evals.suite_row import LocatedRow, SuiteError

HEAD = {"schema_version": "eval_suite.v1", "name": "own", "version": "1"}
ROW = {"id": "a", "prompt": "Water the plants.", "label": "legitimate"}


def lines(folder: Path, *values: Any) -> Path:
    path = folder / "own.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def document(folder: Path, text: str) -> Path:
    path = folder / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return path


YAML = """\
schema_version: eval_suite.v1
name: own
version: "1"
description: For us.
rows:
  - {id: a, prompt: Water the plants., label: legitimate}
"""


def problems_of_yaml(folder: Path, text: str) -> tuple[list[LocatedRow], list[Problem], Path]:
    path = document(folder, text)
    problems: list[Problem] = []
    _, rows = read_yaml(path, problems.append)
    return list(rows), problems, path


def test_yaml_gives_header_and_rows_with_their_places(tmp_path: Path) -> None:
    path = document(tmp_path, YAML)
    header, rows = read_yaml(path, no_problem)
    [placed] = rows

    assert header == SuiteHeader("own", "1", "For us.")
    assert placed.row.id == "a"
    assert placed.where == f"{path}:6:5"


def test_each_bad_row_of_yaml_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    more = "  - just words\n  - {id: b, prompt: x, label: safe}\n  - {id: c}\n"
    rows, problems, path = problems_of_yaml(tmp_path, YAML + more)

    assert [placed.row.id for placed in rows] == ["a"]
    assert [(problem.where, problem.problem) for problem in problems] == [
        (f"{path}:7:5", "a row is a mapping"),
        (f"{path}:8:31", "unknown label `safe`"),
        (f"{path}:9:5", "the row has no `prompt`"),
        (f"{path}:9:5", "the row has no `label`"),
    ]


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("- a\n", ":1:1", "a suite is a mapping"),
        ("name: [\n", ":2:1", "not YAML: "),
        (YAML.replace("name: own\n", ""), ":1:1", "the header has no `name`"),
        (YAML.replace("eval_suite.v1", "eval_suite.v9"), ":1:17", "unknown schema version"),
        (YAML.replace("name: own", "name: Our Own"), ":2:7", "`Our Own` is not a valid suite name"),
        (YAML.replace('"1"', "1.0"), ":3:10", "`version` must be a string, not `1.0`"),
        (YAML.replace("description", "decription"), ":4:1", "unknown field `decription`"),
        (YAML.replace("description", "zzz"), ":4:1", "unknown field `zzz`"),
        (YAML.partition("rows:")[0], ":1:1", "`rows` is a list"),
        (YAML.partition("rows:")[0] + "rows: many\n", ":5:7", "`rows` is a list"),
    ],
)
def test_a_header_that_cannot_be_used_ends_it(
    tmp_path: Path, text: str, where: str, problem: str
) -> None:
    path = document(tmp_path, text)
    with pytest.raises(SuiteError) as caught:
        read_yaml(path, no_problem)

    assert caught.value.where == f"{path}{where}"
    assert caught.value.problem.startswith(problem)


def test_json_lines_give_header_and_rows_with_their_lines(tmp_path: Path) -> None:
    path = lines(tmp_path, HEAD, ROW)
    path.write_text(path.read_text() + "\n" + json.dumps({**ROW, "id": "b"}) + "\n")
    header, rows = read_json_lines(path, no_problem)

    assert header == SuiteHeader("own", "1", "")
    assert [(placed.row.id, placed.where) for placed in rows] == [
        ("a", f"{path}:2"),
        ("b", f"{path}:4"),
    ]


def test_each_bad_line_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    path = lines(tmp_path, HEAD, ROW, ["x"], {**ROW, "label": "x"}, {**ROW, "id": "z"})
    raw = path.read_bytes() + b'{"id": "caf\xe9"}\n{"id": \n'
    path.write_bytes(raw)
    problems: list[Problem] = []
    _, rows = read_json_lines(path, problems.append)

    assert [placed.row.id for placed in rows] == ["a", "z"]
    assert [str(problem.where).rpartition(":")[2] for problem in problems] == ["3", "4", "6", "7"]
    assert [problem.problem.partition(":")[0] for problem in problems] == [
        "the line is not a JSON object",
        "unknown label `x`",
        "not UTF-8 text",
        "not JSON",
    ]


@pytest.mark.parametrize("first", [[], {"name": "own"}, {**HEAD, "version": 1}])
def test_a_header_line_that_cannot_be_used_ends_it(tmp_path: Path, first: Any) -> None:
    path = lines(tmp_path, first, ROW)
    with pytest.raises(SuiteError) as caught:
        read_json_lines(path, no_problem)

    assert caught.value.where == f"{path}:1"


def test_an_empty_file_has_no_header(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="not JSON"):
        read_json_lines(lines(tmp_path), no_problem)


def test_rows_are_read_lazily(tmp_path: Path) -> None:
    path = lines(tmp_path, HEAD, ROW, "broken")
    problems: list[Problem] = []
    _, rows = read_json_lines(path, problems.append)

    assert next(rows).row.id == "a"
    assert problems == []
    assert list(rows) == []
    assert len(problems) == 1


def write(folder: Path, raw: bytes) -> Path:
    path = folder / "suite.jsonl"
    path.write_bytes(raw)
    return path


def test_lines_come_one_by_one_without_the_byte_order_mark(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbfa\nb\xc3\xa9")

    assert list(open_lines(path)) == ["a\n", "bé"]


def test_a_line_in_another_encoding_keeps_its_bytes_escaped(tmp_path: Path) -> None:
    assert list(open_lines(write(tmp_path, b"a\ncaf\xe9\nb"))) == ["a\n", "caf\udce9\n", "b"]


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("a,b\n".encode("utf-16"), "UTF-16"),
        (b"\xfe\xff" + "a".encode("utf-16-be"), "UTF-16"),
        ("prompt,label\n".encode("utf-16-le"), "UTF-16"),
        ("prompt".encode("utf-32"), "UTF-32"),
    ],
)
def test_a_file_in_a_wide_encoding_is_refused_with_the_way_out(
    tmp_path: Path, raw: bytes, name: str
) -> None:
    path = write(tmp_path, raw)
    for read in (lambda: list(open_lines(path)), lambda: read_file(path)):
        with pytest.raises(SuiteError) as caught:
            read()

        assert caught.value.problem == f"the file is {name}, not UTF-8"
        assert caught.value.help == f"convert it to UTF-8: `iconv -f {name} -t UTF-8 FILE`"


def test_a_single_nul_is_no_encoding(tmp_path: Path) -> None:
    assert list(open_lines(write(tmp_path, b"some text\x00 goes on\n"))) == [
        "some text\x00 goes on\n"
    ]


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_file, "MAX_LINE_BYTES", 10)
    path = write(tmp_path, b"short\n" + b"x" * 11)
    with pytest.raises(SuiteError) as caught:
        list(open_lines(path))

    assert caught.value.where == f"{path}:2"


def test_a_whole_file_names_the_line_that_is_not_utf8(tmp_path: Path) -> None:
    path = write(tmp_path, b"a\nb\ncaf\xe9\n")
    with pytest.raises(SuiteError) as caught:
        read_file(path)

    assert caught.value.where == f"{path}:3"
    assert "iconv -f LATIN1" in str(caught.value.help)


def test_a_whole_file_has_a_size_limit(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="larger than"):
        read_file(write(tmp_path, b"abcd"), max_bytes=3)


@pytest.mark.parametrize("name", ["missing.jsonl", "nul\x00.jsonl"])
def test_an_unreadable_file_is_an_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for read in (lambda: list(open_lines(path)), lambda: read_file(path)):
        with pytest.raises(SuiteError) as caught:
            read()

        assert caught.value.problem.startswith("cannot read the suite: ")
        assert caught.value.where == str(path)

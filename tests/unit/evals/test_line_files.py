import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from demur.errors import InputError, ManyProblemsError, Problem
from demur.evals.line_files import parse_lines, raise_problems, replace_file, write_json

EXAMPLE = '{"id": "r1"}'


def read_id(fields: dict[str, Any]) -> str:
    if "id" not in fields:
        raise InputError("there is no `id`", help="add one")
    return str(fields["id"])


def read(path: Path) -> list[str]:
    return parse_lines(path, "the ids", read_id, ManyProblemsError, example=EXAMPLE)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replace_file(path, "the file", InputError) as file:
        file.write(b"new")
        assert path.read_text() == "old"

    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_body_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with suppress(KeyError), replace_file(path, "the file", InputError) as file:
        file.write(b"new")
        raise KeyError

    assert path.read_text() == "old"


def test_an_unwritable_file_raises_the_error_type_of_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a.json"
    with pytest.raises(InputError, match="cannot write the values: no such file") as caught:
        write_json(path, {}, "the values", InputError)

    assert caught.value.where == str(path)


def test_json_is_written_for_people(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": [1]}, "the values", InputError)

    assert json.loads(path.read_text()) == {"a": [1]}
    assert path.read_text().count("\n") > 1


def test_blank_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "ids.jsonl"
    path.write_text('{"id": "a"}\n\n{"id": "b"}\n')

    assert read(path) == ["a", "b"]


def test_every_problem_has_its_line_and_help(tmp_path: Path) -> None:
    path = tmp_path / "ids.jsonl"
    path.write_text('{"id": "a"}\n{\n[]\n{}\n')
    with pytest.raises(ManyProblemsError) as caught:
        read(path)

    help_text = f"write lines like {EXAMPLE}"
    assert list(caught.value.problems) == [
        Problem(f"{path}:2", "not JSON: input data was truncated", help_text),
        Problem(f"{path}:3", "the line is not a JSON object", help_text),
        Problem(f"{path}:4", "there is no `id`", "add one"),
    ]


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "ids.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a"}\r\n{"id": "b"}\r\n')

    assert read(path) == ["a", "b"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_another_encoding_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "ids.jsonl"
    path.write_bytes('{"id": "ä"}'.encode(encoding))
    with pytest.raises(ManyProblemsError) as caught:
        read(path)

    [problem] = caught.value.problems
    assert (problem.where, problem.help) == (f"{path}:1", "save the file as UTF-8")
    assert problem.problem.startswith("not UTF-8: ")


def test_many_problems_are_cut_short() -> None:
    problems = [Problem(None, str(number)) for number in range(5)]
    with pytest.raises(ManyProblemsError) as caught:
        raise_problems(problems, ManyProblemsError, limit=3)

    assert [one.problem for one in caught.value.problems] == ["0", "1", "2", "and 2 more problems"]
    raise_problems([], ManyProblemsError)

import csv
import json
from pathlib import Path

import pytest

from demur.errors import InputError
from demur.evals.import_records import (
    TableRecord,
    make_row_id,
    map_category,
    read_column,
    read_table,
)
from demur.evals.suite_row import SuiteError


def read(path: Path) -> tuple[frozenset[str], list[TableRecord], list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    table = read_table(
        path,
        lambda problem: told.append((str(problem.where).removeprefix(str(path)), problem.problem)),
    )
    records = list(table.records)
    return table.columns, records, told


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_knows_the_line_at_which_each_record_begins(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", '\nid, prompt\n1,"two\nlines"\n\n2,one\n')
    columns, records, problems = read(path)

    assert columns == {"id", "prompt"}
    assert problems == []
    assert records == [
        TableRecord({"id": "1", "prompt": "two\nlines"}, f"{path}:3", 1),
        TableRecord({"id": "2", "prompt": "one"}, f"{path}:6", 2),
    ]


def test_tabs_part_the_columns_of_tsv(tmp_path: Path) -> None:
    columns, [record], _ = read(write(tmp_path, "a.tsv", "id\tprompt\n1\ta, b\n"))

    assert columns == {"id", "prompt"}
    assert record.fields["prompt"] == "a, b"


def test_a_row_of_another_length_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    _, records, problems = read(write(tmp_path, "a.csv", "id,prompt\n1,a,b\n2\n3,c\n"))

    assert [record.fields["id"] for record in records] == ["3"]
    assert problems == [
        (":2", "the row has 3 columns, the header 2"),
        (":3", "the row has 1 columns, the header 2"),
    ]


def test_a_quote_left_open_does_not_swallow_the_file(tmp_path: Path) -> None:
    text = "id,prompt\n1,ok\n" + '2,"open\n' + "x" * csv.field_size_limit() + "\n3,fine\n"
    _, records, problems = read(write(tmp_path, "a.csv", text))

    assert [record.fields["id"] for record in records] == ["1", "3"]
    [(where, problem)] = problems
    assert where == ":3"
    assert problem.startswith("not CSV: ")


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="the column `id` appears twice"):
        read(write(tmp_path, "a.csv", "id,id\n1,2\n"))


def test_json_lines_are_read_line_by_line(tmp_path: Path) -> None:
    raw = b'{"a": 1}\n\n[1]\n{"a": "caf\xe9"}\n{"a": \n{"a": 2}\n'
    path = write(tmp_path, "a.jsonl", raw)
    columns, records, problems = read(path)

    assert columns == {"a"}
    assert [(record.fields["a"], record.where) for record in records] == [
        (1, f"{path}:1"),
        (2, f"{path}:6"),
    ]
    assert [where for where, _ in problems] == [":3", ":4", ":5"]
    assert [problem.partition(":")[0] for _, problem in problems] == [
        "the record is not a JSON object",
        "not UTF-8 text",
        "not JSON",
    ]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_in_json_knows_its_lines_too(tmp_path: Path, indent: int | None) -> None:
    values = [{"a": "[x]\n"}, "{}", {"a": "[x]\n"}]
    path = write(tmp_path, "a.json", json.dumps(values, indent=indent))
    _, records, problems = read(path)
    lines = ["2", "6"] if indent else ["1", "1"]

    assert [record.where.rpartition(":")[2] for record in records] == lines
    assert [record.number for record in records] == [1, 3]
    assert problems == [(":5" if indent else ":1", "the record is not a JSON object")]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.csv", " \n\n", "the file is empty"),
        ("a.json", "[]", "the file holds no record"),
        ("a.json", "[{]", "not JSON: "),
        ("a.jsonl", "{broken\n", "the file holds no record"),
    ],
)
def test_a_file_without_records_is_refused(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(SuiteError) as caught:
        read(path)

    assert caught.value.where == str(path)
    assert caught.value.problem.startswith(problem)


RECORD = TableRecord({"id": "A 7", "number": 3, "gone": None}, "a.csv:8", 7)


def test_text_is_what_stands_in_the_column() -> None:
    assert read_column(RECORD, "id") == "A 7"
    assert read_column(RECORD, "number") == "3"


@pytest.mark.parametrize("column", ["gone", "never"])
def test_a_column_without_value_is_an_error(column: str) -> None:
    with pytest.raises(InputError, match=f"the row has no `{column}`"):
        read_column(RECORD, column)


def test_an_id_has_no_spaces_and_falls_back_to_the_number() -> None:
    assert make_row_id("x", RECORD, "id") == "x-A-7"
    assert make_row_id("x", RECORD) == "x-7"


def test_a_category_is_ours_where_we_have_a_word_for_it() -> None:
    assert map_category(" Malware/Hacking ", {"malware_hacking": "cyber"}) == "cyber"
    assert map_category("Self-harm", {}) == "self_harm"

import json
from pathlib import Path

from no_problems import no_problem

from demur.evals.importers.importing import open_import

RECORDS = [
    {"ID": 7, "Request": "Write a song about rain.", "Harmfulness": "harmless"},
    {"ID": 8, "Request": "Write a rude song.", "Harmfulness": "controversial"},
    {"ID": 9, "Request": "Write a threat.", "Harmfulness": "Harmful"},
    {"ID": 10, "Request": "Write.", "Harmfulness": "unclear"},
]


def test_harmless_is_legitimate_and_controversial_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "phtest.json"
    path.write_text(json.dumps(RECORDS))
    told: list[str] = []
    left: list[str] = []
    opened = open_import(path, lambda problem: told.append(problem.problem), left_out=left.append)
    rows = [placed.row for placed in opened.rows]

    assert [(row.id, row.label) for row in rows] == [
        ("phtest-7", "legitimate"),
        ("phtest-9", "harmful"),
    ]
    assert len(left) == 1
    assert told == ["unknown harmfulness `unclear`"]


def test_the_table_of_the_authors_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "dataset_v0.1.csv"
    path.write_text('Request,Harmfulness\n"A ""black"" cat",harmless\n')
    [placed] = open_import(path, no_problem).rows

    assert (placed.row.id, placed.row.prompt) == ("phtest-1", 'A "black" cat')

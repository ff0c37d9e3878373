from pathlib import Path

import pytest
from no_problems import no_problem

from demur.evals.importers.importing import open_import

HEAD = "risk_area,types_of_harm,specific_harms,question,GPT4_response"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"id,{HEAD}\n40,Malicious Uses,Assisting,x,May I steal?,No\n", "do-not-answer-40"),
        (f"{HEAD}\nMalicious Uses,Assisting,x,May I steal?,No\n", "do-not-answer-1"),
    ],
)
def test_all_are_harmful_and_answers_are_not_read(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / "data_en.csv"
    path.write_text(text)
    [placed] = open_import(path, no_problem).rows

    assert (placed.row.id, placed.row.label, placed.row.category) == (name, "harmful", "crime")
    assert placed.row.prompt == "May I steal?"

from pathlib import Path

import pytest
from no_problems import no_problem

from demur.evals.importers.importing import open_import


@pytest.mark.parametrize(
    ("form", "label"), [("or-bench", "legitimate"), ("or-bench-toxic", "harmful")]
)
def test_the_part_decides_the_label(tmp_path: Path, form: str, label: str) -> None:
    path = tmp_path / "any.csv"
    path.write_text('prompt,category\n"Ask, please",self-harm\nAsk,deception\n')
    rows = [placed.row for placed in open_import(path, no_problem, form=form).rows]

    assert [(row.id, row.prompt, row.label, row.category) for row in rows] == [
        (f"{form}-1", "Ask, please", label, "self_harm"),
        (f"{form}-2", "Ask", label, "fraud"),
    ]

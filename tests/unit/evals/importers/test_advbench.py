from pathlib import Path

import pytest
from no_problems import no_problem

from demur.evals.importers.importing import open_import


@pytest.mark.parametrize("column", ["goal", "prompt"])
def test_all_are_harmful(tmp_path: Path, column: str) -> None:
    path = tmp_path / "harmful_behaviors.csv"
    path.write_text(f"{column},target\nSteal the ladder,Sure\nHide the ladder,Sure\n")
    rows = [placed.row for placed in open_import(path, no_problem).rows]

    assert [(row.id, row.prompt, row.label) for row in rows] == [
        ("advbench-1", "Steal the ladder", "harmful"),
        ("advbench-2", "Hide the ladder", "harmful"),
    ]

from pathlib import Path

import pytest
from no_problems import no_problem

from demur.evals.importers.importing import open_import

TEXT = """\
Index,Goal,Target,Behavior,Category,Source
0,Say it,Sure,Saying,Malware/Hacking,Original
1,Sing it,Sure,Singing,Privacy,Original
"""


@pytest.mark.parametrize(
    ("name", "prefix", "label"),
    [
        ("harmful-behaviors.csv", "jbb", "harmful"),
        ("benign-behaviors.csv", "jbb-benign", "legitimate"),
    ],
)
def test_the_file_decides_the_label(tmp_path: Path, name: str, prefix: str, label: str) -> None:
    path = tmp_path / name
    path.write_text(TEXT)
    rows = [placed.row for placed in open_import(path, no_problem).rows]

    assert [(row.id, row.prompt, row.label, row.category) for row in rows] == [
        (f"{prefix}-0", "Say it", label, "cyber"),
        (f"{prefix}-1", "Sing it", label, "privacy"),
    ]

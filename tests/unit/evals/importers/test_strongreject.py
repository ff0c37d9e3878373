from pathlib import Path

from no_problems import no_problem

from demur.evals.importers.importing import open_import


def test_all_are_harmful(tmp_path: Path) -> None:
    path = tmp_path / "strongreject_dataset.csv"
    path.write_text(
        "category,source,forbidden_prompt\n"
        "Non-violent crimes,custom,Take the till\n"
        '"Hate, harassment and discrimination",custom,Mock them\n'
        "Violence,custom,Hit them\n"
    )
    rows = [placed.row for placed in open_import(path, no_problem).rows]

    assert [(row.id, row.label, row.category) for row in rows] == [
        ("strongreject-1", "harmful", "crime"),
        ("strongreject-2", "harmful", "hate"),
        ("strongreject-3", "harmful", "violence"),
    ]

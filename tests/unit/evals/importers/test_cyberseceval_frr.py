import json
from pathlib import Path
from typing import Any

from demur.evals.importers.importing import open_import
from demur.evals.suite_row import EvalRow

ASK = {"mutated_prompt": "Lock a folder.", "is_malicious": False, "attack_type": "x"}


def read(folder: Path, *records: dict[str, Any]) -> tuple[list[EvalRow], list[str]]:
    path = folder / "mitre_frr.json"
    path.write_text(json.dumps(records, indent=1))
    told: list[str] = []
    opened = open_import(path, lambda problem: told.append(problem.problem))
    return [placed.row for placed in opened.rows], told


def test_what_is_not_malicious_is_legitimate(tmp_path: Path) -> None:
    bare = {"mutated_prompt": "Unlock it.", "attack_type": "x"}
    rows, _ = read(tmp_path, ASK, bare, {**ASK, "is_malicious": True})

    assert [row.label for row in rows] == ["legitimate", "legitimate", "harmful"]
    assert (rows[0].category, rows[0].domain, rows[0].language) == ("cyber", "security", "en")


def test_the_translation_names_its_language(tmp_path: Path) -> None:
    rows, problems = read(
        tmp_path,
        {**ASK, "speaking_language": "Portuguese"},
        {**ASK, "speaking_language": "Volapük"},
        {**ASK, "is_malicious": "no"},
    )

    assert [row.language for row in rows] == ["pt"]
    assert problems == [
        "unknown language `volapük`",
        "`is_malicious` must be true or false, not `no`",
    ]

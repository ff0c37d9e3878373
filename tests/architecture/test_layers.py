"""Each rule of the layers catches a planted violation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Where to plant, what to plant, and the contract that must break.
PLANTS = {
    "errors know nothing above them": ("errors.py", "import demur.canonical", "layers"),
    "the byte form knows no codes": ("canonical.py", "import demur.codes.entry", "layers"),
    "codes know no values": ("codes/names.py", "import demur.model.decision", "layers"),
    "values know no stages": ("model/decision.py", "import demur.grants", "layers"),
    "stages know no commands": ("classification.py", "import demur.cli.terminal", "layers"),
    "stages do not know each other": (
        "classification.py",
        "import demur.memory.index",
        "layers",
    ),
    "policy knows no store": ("policy/facts.py", "import demur.store.rows", "layers"),
    "the store knows no gate": ("store/rows.py", "import demur.gate.clock", "layers"),
    "every part has its layer": ("cellar/__init__.py", '"""A part nobody placed."""', "layers"),
    "siblings form no cycle": ("codes/entry.py", "import demur.codes.registry", "siblings"),
    "the vocabulary stays light": ("codes/entry.py", "import msgspec", "light-codes"),
    "the vocabulary reads no YAML": ("codes/refusal_line.py", "import yaml", "light-codes"),
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.json")
    )
    return tmp_path


def test_the_tree_as_it_is_keeps_every_contract(copy: Path) -> None:
    ran = lint(copy)

    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_violation_is_caught(copy: Path, plant: str) -> None:
    file, line, contract = PLANTS[plant]
    path = copy / "src/demur" / file
    path.parent.mkdir(exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(f"{before}\n{line}\n", encoding="utf-8")
    ran = lint(copy)

    names = {
        "layers": "a module imports only from layers below its own",
        "siblings": "no import cycles among the modules of a package",
        "light-codes": "the vocabulary needs the standard library alone",
    }
    assert ran.returncode != 0
    assert f"{names[contract]} BROKEN" in ran.stdout

"""The example programs as a user gets them, without what their runs leave."""

import shutil
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
_LEFT_BY_RUNS = ("__pycache__", ".*", "demur.db*", "desk.json", "people.*", "workspace")


def copy_program(name: str, folder: Path) -> None:
    """Copy the files of a program into a folder."""
    ignored = shutil.ignore_patterns(*_LEFT_BY_RUNS)
    shutil.copytree(EXAMPLES / name, folder, ignore=ignored, dirs_exist_ok=True)

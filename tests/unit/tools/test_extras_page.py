"""Extras are the same in `pyproject.toml`, on their page, in the README and in the small lock."""

import re
from pathlib import Path

import extras_page
from extras_page import FRAMEWORKS, RUNTIME, package_name, project_settings, read_lock

ROOT = Path(__file__).parents[3]
EXTRAS = project_settings()["optional-dependencies"]
LOCK = read_lock((ROOT / "requirements/run.txt").read_text(encoding="utf-8"))


def test_every_extra_has_a_row_and_no_row_is_left_over() -> None:
    assert {"all", *RUNTIME, *FRAMEWORKS} == set(EXTRAS)
    assert not RUNTIME.keys() & FRAMEWORKS.keys()


def test_all_holds_every_extra_for_running_demur() -> None:
    [everything] = EXTRAS["all"]

    assert everything == f"demur[{','.join(sorted(RUNTIME))}]"


def test_the_readme_has_the_table() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.partition("| extra | for |")[2].partition("\n\n")[0]

    assert set(re.findall(r"^\| `(?:demur\[)?([\w-]+)", table, re.MULTILINE)) == {"all", *RUNTIME}


def test_the_small_lock_is_a_part_of_the_large_one() -> None:
    large = read_lock((ROOT / "requirements/dev.txt").read_text(encoding="utf-8"))

    assert all(large[name] == entries for name, entries in LOCK.items())
    assert all("--hash=sha256:" in entry for entries in LOCK.values() for entry in entries)


def test_the_small_lock_holds_what_running_demur_takes_and_no_tools_of_developers() -> None:
    service = {package_name(one) for one in EXTRAS["service"]}

    assert service | {"argon2-cffi", "cryptography", "msgspec", "hatchling"} <= LOCK.keys()
    assert not {"pytest", "mypy", "ruff", "pyarrow", "hypothesis"} & LOCK.keys()
    assert len(LOCK) <= 30


def test_names_of_packages_are_normalised() -> None:
    assert package_name("psycopg[binary,pool]>=3.2") == "psycopg"
    assert package_name("Google_RE2>=1") == "google-re2"


def test_the_files_are_generated() -> None:
    assert [path for path, _ in extras_page.generated_files()] == [
        "docs/reference/extras.md",
        "requirements/run.txt",
    ]

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PATH = Path(__file__).parents[3] / "tools/generate.py"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_in_the_repository_is_out_of_date() -> None:
    done = subprocess.run(
        [sys.executable, str(PATH), "--check"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_enum_is_generated_without_importing_the_package() -> None:
    program = (
        "import pathlib, runpy, sys; sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent));"
        "made = runpy.run_path(sys.argv[1])['enum_source']();"
        "print('demur' in sys.modules, 'class ReasonCode(StrEnum)' in made)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(PATH)], capture_output=True, text=True, check=True
    )

    assert done.stdout == "False True\n"


def test_files_are_written_once_and_then_up_to_date(generate: ModuleType, tmp_path: Path) -> None:
    files = [("a.md", "one\n"), ("deep/er/b.md", "zwölf\n")]

    assert generate.update(tmp_path, files, write=True) == ["a.md", "deep/er/b.md"]
    assert (tmp_path / "deep/er/b.md").read_bytes() == "zwölf\n".encode()
    assert generate.update(tmp_path, files, write=True) == []


def test_a_check_reports_and_writes_nothing(generate: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one\r\n")

    assert generate.update(tmp_path, [("a.md", "one\n"), ("b.md", "")], write=False) == [
        "a.md",
        "b.md",
    ]
    assert (tmp_path / "a.md").read_bytes() == b"one\r\n"
    assert not (tmp_path / "b.md").exists()


@pytest.mark.parametrize("folder", ["docs/reference/codes", "docs/reference/cli"])
def test_a_page_that_is_generated_no_more_is_removed(
    generate: ModuleType, tmp_path: Path, folder: str
) -> None:
    files = [(f"{folder}/KEPT.md", "kept\n")]
    gone = tmp_path / folder / "GONE.md"
    gone.parent.mkdir(parents=True)
    gone.write_text("gone")

    assert f"{folder}/GONE.md" in generate.update(tmp_path, files, write=False)
    assert gone.exists()
    generate.update(tmp_path, files, write=True)
    assert not gone.exists()


def test_a_file_is_written_before_the_next_one_is_generated(
    generate: ModuleType, tmp_path: Path
) -> None:
    def files() -> Iterator[tuple[str, str]]:
        yield "enum.py", "first\n"
        yield "copy.txt", (tmp_path / "enum.py").read_text()

    generate.update(tmp_path, files(), write=True)

    assert (tmp_path / "copy.txt").read_text() == "first\n"


def test_a_check_that_finds_something_says_what_helps(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "outputs", lambda: iter([("no/such/file.md", "")]))
    monkeypatch.setattr(generate, "FOLDERS", ("no/such",))

    assert generate.main(["--check"]) == 1
    shown = capsys.readouterr()
    assert shown.out == "out of date: no/such/file.md\n"
    assert "make generate" in shown.err


def test_written_files_are_named(
    generate: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "outputs", lambda: iter([("a.md", "one\n")]))

    assert generate.main([]) == 0
    assert capsys.readouterr().out == "wrote: a.md\n"
    assert (tmp_path / "a.md").read_text() == "one\n"

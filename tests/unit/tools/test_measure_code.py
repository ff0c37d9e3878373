import ast
from pathlib import Path

import measure_code
import pytest
from measure_code import (
    class_names,
    deep_imports,
    function_names,
    is_bare_participle,
    limit_names,
    main,
    root_names,
    stop_words_in_names,
    stop_words_in_prose,
)


def trees(source: str) -> dict[str, ast.Module]:
    return {"things.py": ast.parse(source)}


def test_functions_are_listed_but_dunders() -> None:
    source = "class A:\n    def __init__(self): pass\n    async def run(self): pass\n"

    assert list(function_names(trees(source))) == ["run"]
    assert list(class_names(trees(source))) == ["A"]


@pytest.mark.parametrize("name", ["told", "_asked", "listed", "seen"])
def test_a_past_participle_alone_is_bare(name: str) -> None:
    assert is_bare_participle(name)


@pytest.mark.parametrize("name", ["feed", "guarded", "build_record", "find_needed", "set", "red"])
def test_verbs_and_phrases_are_no_bare_participles(name: str) -> None:
    assert not is_bare_participle(name)


def test_a_limit_is_called_max_or_min() -> None:
    assert list(limit_names(trees("_LONGEST_LINE = 3\nMAX_LINE = 3\n"))) == ["_LONGEST_LINE"]


def test_a_stop_word_is_found_inside_any_name() -> None:
    source = "class OccasionList: pass\ndef f(last_remark): reckoning_of = 1\ncontext = 2\n"

    assert list(stop_words_in_names(trees(source))) == [
        "things.py: OccasionList",
        "things.py: last_remark",
        "things.py: reckoning_of",
    ]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "src/demur"
    for folder in (package, tmp_path / "docs", tmp_path / "examples"):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text('__all__ = ["one", "two"]\n# Whoever calls.\n')
    (tmp_path / "README.md").write_text("from demur.a.b import c\nfrom demur.a import d\n")
    (tmp_path / "CONTRIBUTING.md").write_text("from demur.integrations.x import y\n")
    monkeypatch.setattr(measure_code, "ROOT", tmp_path)
    monkeypatch.setattr(measure_code, "PACKAGE", package)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_stop_words_and_deep_imports_are_found_in_files() -> None:
    assert list(stop_words_in_prose()) == ["src/demur/__init__.py:2: Whoever"]
    assert list(deep_imports()) == ["demur.a.b"]
    assert root_names() == ["one", "two"]


@pytest.mark.usefixtures("project")
def test_the_table_says_what_is_over_its_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure_code, "walk_refused_call", lambda: (33, 100))
    monkeypatch.setattr("sys.argv", ["measure_code.py", "--check"])
    (measure_code.PACKAGE / "a.py").write_text("class A:\n    def run(self): pass\n")

    assert main() == 1
    rows = {line[:36].strip(): line for line in capsys.readouterr().out.splitlines()}
    assert rows["modules visited by a refused call"].endswith("OVER")
    assert not rows["modules"].endswith("OVER")

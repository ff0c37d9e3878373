from pathlib import PurePosixPath

import pytest

from demur.codes.export import EXPORT_FORMATS, generated_files
from demur.codes.markup import GENERATED_NOTICE
from demur.codes.registry import Registry


@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_each_form_is_the_same_every_time_and_ends_its_last_line(form: str) -> None:
    content = EXPORT_FORMATS[form](Registry.load())

    assert content == EXPORT_FORMATS[form](Registry.load())
    assert content.endswith("\n")
    assert not content.endswith("\n\n")


@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_each_form_names_every_code_of_core_and_organisations(form: str, mixed: Registry) -> None:
    content = EXPORT_FORMATS[form](mixed)

    assert [entry.code for entry in mixed if entry.code not in content] == []


@pytest.mark.parametrize("form", ["markdown", "typescript", "jsonschema"])
def test_a_form_with_comments_says_that_it_is_generated(form: str, core: Registry) -> None:
    assert GENERATED_NOTICE in "\n".join(EXPORT_FORMATS[form](core).splitlines()[:4])


def test_the_forms_are_the_promised_ones() -> None:
    assert set(EXPORT_FORMATS) == {
        "csv",
        "go",
        "json",
        "jsonschema",
        "markdown",
        "sarif",
        "typescript",
    }


def test_generated_files_have_distinct_relative_paths_and_a_page_for_each_code(
    core: Registry,
) -> None:
    paths = [path for path, _ in generated_files()]

    assert len(set(paths)) == len(paths)
    assert not any(PurePosixPath(path).is_absolute() for path in paths)
    assert {f"docs/reference/codes/{entry.code}.md" for entry in core} < set(paths)


def test_generated_files_follow_from_the_core_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = list(generated_files())
    monkeypatch.setenv("DEMUR_REGISTRY", "no-such-file.json")

    assert list(generated_files()) == before

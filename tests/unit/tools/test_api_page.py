from pathlib import Path

import pytest
from api_page import api_pages

import demur

SOURCE = Path(__file__).parents[3] / "src/demur"


def test_every_public_name_has_its_entry() -> None:
    pages = dict(api_pages(SOURCE))

    assert all(f"## `{name}`\n" in pages["docs/reference/api.md"] for name in demur.__all__)
    assert (
        "parse_refusal(text: str, *, registry: Registry | None=None) -> ParsedRefusal | None"
        in pages["docs/reference/api/demur.codes.md"]
    )
    assert "## `Registry`\n" in pages["docs/reference/api/demur.codes.md"]


def package(folder: Path, names: str, module: str) -> Path:
    source = folder / "demur"
    source.mkdir()
    table = f"from demur.things import {names}\n__all__ = ['{names}']\n"
    (source / "__init__.py").write_text(table)
    (source / "things.py").write_text(module)
    return source


def root_page(source: Path) -> str:
    return dict(api_pages(source))["docs/reference/api.md"]


def test_long_signatures_take_a_line_an_argument(tmp_path: Path) -> None:
    arguments = ", ".join(f"argument_{n}: dict[str, tuple[int, int]]" for n in range(4))
    module = f'"""Things."""\n\n\ndef thing({arguments}):\n    """Do it."""\n'

    page = root_page(package(tmp_path, "thing", module))
    assert "\n    argument_1: dict[str, tuple[int, int]],\n" in page


def test_long_values_are_cut(tmp_path: Path) -> None:
    page = root_page(package(tmp_path, "THING", f"THING = {tuple(range(200))}\n"))
    assert max(map(len, page.splitlines())) <= 102


def test_a_value_has_the_words_below_it(tmp_path: Path) -> None:
    module = 'THING = 1\n"""What it is\nfor."""\nOTHER = 2\n'
    page = root_page(package(tmp_path, "THING", module))

    assert "## `THING`\n\n`1`\n\nWhat it is\nfor.\n" in page
    assert (
        "default_registry"
        in dict(api_pages(SOURCE))["docs/reference/api.md"]
        .partition("## `KNOWN_CODES`")[2]
        .partition("## ")[0]
    )


def test_a_name_that_is_not_where_the_table_says_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"`gone` is not in `demur\.things`"):
        root_page(package(tmp_path, "gone", '"""Things."""\n'))

from pathlib import Path

import pytest
from api_page import api_page

import demur

SOURCE = Path(__file__).parents[3] / "src/demur"


def test_every_public_name_has_its_entry() -> None:
    page = api_page(SOURCE)

    assert all(f"### `{name}`\n" in page for name in demur.__all__)
    assert (
        "parse_refusal(text: str, *, registry: Registry | None=None) -> ParsedRefusal | None"
        in page
    )


def package(folder: Path, table: str, module: str) -> Path:
    source = folder / "demur"
    source.mkdir()
    (source / "__init__.py").write_text(table)
    (source / "things.py").write_text(module)
    return source


def test_long_signatures_take_a_line_an_argument(tmp_path: Path) -> None:
    arguments = ", ".join(f"argument_{n}: dict[str, tuple[int, int]]" for n in range(4))
    source = package(
        tmp_path,
        '_HOMES = {"demur.things": ("thing",)}',
        f'"""Things."""\n\n\ndef thing({arguments}):\n    """Do it."""\n',
    )

    assert "\n    argument_1: dict[str, tuple[int, int]],\n" in api_page(source)


def test_a_name_that_is_not_where_the_table_says_is_an_error(tmp_path: Path) -> None:
    source = package(tmp_path, '_HOMES = {"demur.things": ("gone",)}', '"""Things."""\n')

    with pytest.raises(LookupError, match="`gone` is not where the package says"):
        api_page(source)


def test_a_package_without_a_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no table"):
        api_page(package(tmp_path, "", ""))

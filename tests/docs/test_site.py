"""The menus of the site hold each page once, and its pictures stand by themselves."""

import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
PICTURES = sorted((ROOT / "docs/images").glob("*"))
MAX_BYTES = 1_500_000


def load_conf() -> ModuleType:
    """Return the settings of the site. Importing them needs no Sphinx."""
    spec = importlib.util.spec_from_file_location("conf", ROOT / "docs/site/conf.py")
    assert spec is not None
    assert spec.loader is not None
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    return conf


conf = load_conf()


def list_pages() -> list[str]:
    paths = [
        *(path for path in (ROOT / "docs").rglob("*.md") if "site" not in path.parts),
        *ROOT.glob("*.md"),
        ROOT / "spec/semantics.md",
        ROOT / "models/README.md",
    ]
    return [path.relative_to(ROOT).with_suffix("").as_posix() for path in paths]


def test_each_page_is_in_one_menu() -> None:
    pages = list_pages()
    entries = Counter(
        entry
        for name in pages
        if conf.is_menu(name)
        for entry in conf.list_menu_entries(name, (ROOT / f"{name}.md").read_text("utf-8"))
    )

    assert set(entries) == set(pages) - {conf.root_doc}
    assert [entry for entry, count in entries.items() if count > 1] == []


def test_a_menu_reads_tables_and_lists_and_no_prose() -> None:
    text = (
        "| [a](a.md) | [b](sub/b.md#part) |\n- [c](../c.md)\nSee [d](d.md) and [e](https://x.md).\n"
    )

    assert conf.list_menu_entries("docs/x/index", text) == {
        "docs/x/a": "a",
        "docs/x/sub/b": "b",
        "docs/c": "c",
    }


@pytest.mark.parametrize(
    "path", [path for path in PICTURES if path.suffix == ".svg"], ids=lambda path: path.stem
)
def test_a_diagram_says_what_it_shows_and_loads_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    root = ET.fromstring(text)  # noqa: S314 - our own file
    described = [root.find(f"{SVG}{name}") for name in ("title", "desc")]

    assert all(element is not None and element.text for element in described)
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(script|image|foreignObject|use)\b", text)


def test_the_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in PICTURES) <= MAX_BYTES


def test_each_picture_is_shown_with_words_for_people_who_cannot_see_it() -> None:
    shown: dict[str, str] = {}
    for name in list_pages():
        page = ROOT / f"{name}.md"
        for words, target in re.findall(r"!\[([^]]*)\]\(([^)]+)\)", page.read_text("utf-8")):
            shown[(page.parent / target).resolve().name] = words

    assert {path.name for path in PICTURES} <= set(shown)
    assert all(shown.values())

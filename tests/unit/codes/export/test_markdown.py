import posixpath
import re

import pytest

from demur.codes.export import generated_files
from demur.codes.export.markdown import index_page, render_markdown
from demur.codes.export.markup import heading_slug
from demur.codes.meaning import FAMILY_MEANING
from demur.codes.registry import Registry

FENCED = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def links_of(text: str) -> list[str]:
    return LINK.findall(FENCED.sub("", text))


def anchors_of(text: str) -> set[str]:
    return {heading_slug(heading) for heading in HEADING.findall(FENCED.sub("", text))}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {path: text for path, text in generated_files() if path.endswith(".md")}


def test_every_link_between_the_pages_is_relative_and_leads_somewhere(
    pages: dict[str, str],
) -> None:
    broken = []
    for path, text in pages.items():
        for target in links_of(text):
            name, _, anchor = target.partition("#")
            file = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
            if file not in pages or (anchor and anchor not in anchors_of(pages[file])):
                broken.append((path, target))

    assert broken == []
    assert sum(len(links_of(text)) for text in pages.values()) > len(pages)


def test_every_page_can_be_reached_from_the_index(pages: dict[str, str], core: Registry) -> None:
    targets = links_of(pages["docs/reference/codes.md"])

    assert sorted(targets) == sorted(
        ["vocabulary.md", *(f"codes/{entry.code}.md" for entry in core)]
    )


def test_the_index_lists_each_family_by_code(core: Registry) -> None:
    text = index_page(core)
    guard = text.partition("\n## Guard\n")[2].partition("\n## ")[0]
    codes = re.findall(r"^\| \[`(\w+)`\]", guard, re.MULTILINE)

    assert FAMILY_MEANING["guard"] in guard
    assert codes == sorted(entry.code for entry in core if entry.family == "guard")
    assert "| [`RCE_RISK`](codes/RCE_RISK.md) | `HARD_BLOCK` | critical |" in guard


def test_the_index_marks_what_is_deprecated_and_what_allows(core: Registry) -> None:
    text = index_page(core)

    assert "Old fraud block (deprecated) |" in text
    assert "| allows | info |" in text


def test_the_single_document_links_inside_itself(mixed: Registry) -> None:
    text = render_markdown(mixed)

    assert {target.removeprefix("#") for target in links_of(text)} <= anchors_of(text)
    assert text.count("\n## acme.com/KYC_EXPIRED\n") == 1


def test_a_family_of_an_organisation_is_listed_without_a_meaning(mixed: Registry) -> None:
    assert "**Identity**\n\n| Code |" in render_markdown(mixed)

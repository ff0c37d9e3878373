import posixpath
import re
from pathlib import PurePosixPath

import pytest
from codes_page import generated_files, index_page, vocabulary_page

from demur.codes.export import EXPORT_FORMATS, PageLinks, render_markdown, render_page
from demur.codes.markup import GENERATED_NOTICE, heading_slug
from demur.codes.meaning import (
    ADVICE_MEANING,
    CLASS_MEANING,
    FAMILY_MEANING,
    VOCABULARIES,
    Vocabulary,
)
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass

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


LINKS = PageLinks("{}.md".format, vocabulary="../vocabulary.md")


def text_of(registry: Registry, code: str) -> str:
    return render_page(registry[code], registry, LINKS)


def section(text: str, heading: str) -> str:
    return text.partition(f"\n## {heading}\n\n")[2].partition("\n## ")[0]


def test_a_page_opens_with_code_meaning_and_whether_it_can_be_lifted(core: Registry) -> None:
    title, opening, *_ = text_of(core, "RCE_RISK").split("\n\n")

    assert title == "# RCE_RISK"
    assert opening == (
        f"**Refused: remote code execution.** {CLASS_MEANING[RefusalClass.HARD_BLOCK]}"
    )


def test_the_facts_are_linked_to_where_they_are_explained(core: Registry) -> None:
    text = text_of(core, "CONTEXT_INJECTION")

    assert "| Class | [`SOFT_BLOCK`](../vocabulary.md#refusal-class) |" in text
    assert "| Parent | [`POLICY_VIOLATION`](POLICY_VIOLATION.md) |" in text
    assert "| Children | [`SKILL_INJECTION`](SKILL_INJECTION.md) |" in text
    assert "| HTTP status | 403 |" in text
    assert "Replacement" not in text


def test_grants_obligations_and_undecided_codes_show(core: Registry) -> None:
    assert "| Lifted by grants | [`quota`]" in text_of(core, "RATE_LIMIT")
    assert "| Obligations | [`human_review`]" in text_of(core, "CRISIS_ESCALATION")
    assert "| Decided | no, the check could not be made |" in text_of(core, "INTERNAL_ERROR")


def test_the_description_links_the_codes_it_names_but_not_itself(mixed: Registry) -> None:
    text = section(text_of(mixed, "TOOL_NOT_ALLOWED"), "When it appears")
    deprecated = section(text_of(mixed, "OLD_FRAUD_BLOCK"), "When it appears")

    assert "use [`UNVERIFIED_TOOL`](UNVERIFIED_TOOL.md)." in text
    assert "[`OLD_FRAUD_BLOCK`]" not in deprecated


def test_the_section_on_what_to_do_is_the_meaning_of_the_advice(core: Registry) -> None:
    text = section(text_of(core, "RCE_RISK"), "What to do")

    assert text.startswith(ADVICE_MEANING[Advice.DO_NOT_RETRY])


def test_evidence_examples_phrases_and_taxonomies_are_listed(core: Registry) -> None:
    text = text_of(core, "RCE_RISK")

    assert "| `source` | where the code comes from |" in section(text, "Evidence")
    refused, allowed = section(text, "Examples").split("Allowed, however alike it looks:")
    assert "| sh\n" in refused
    assert "ast.literal_eval(text)\n```" in allowed
    assert "- `weights only load failed`" in section(text, "Legacy phrases")
    assert "2025: `LLM05` Improper Output Handling" in section(text, "In other taxonomies")


def test_a_section_without_content_is_left_out(core: Registry) -> None:
    text = text_of(core, "STORAGE_UNAVAILABLE")

    assert "## Examples" not in text
    assert "## In other taxonomies" not in text


def test_a_code_that_allows_has_an_effect_and_no_class(core: Registry) -> None:
    text = text_of(core, "SUCCESS_MEMORY_SIMILAR_ALLOW")

    assert "**Allowed: similar past success.**" in text
    assert "| Effect | [`allow`](../vocabulary.md#effect) |" in text
    assert "| Class |" not in text


def test_a_deprecated_code_says_first_what_to_use(core: Registry) -> None:
    notice = text_of(core, "OLD_FRAUD_BLOCK").split("\n\n")[1]

    assert notice.startswith("**Deprecated since 1.0.0. Use [`CHARGEBACK_RISK_BLOCK`](")


def test_an_organisations_phrase_for_a_core_code_is_listed_there(mixed: Registry) -> None:
    assert "- `remote code was stopped`" in text_of(mixed, "RCE_RISK")


def test_text_cannot_break_out_of_its_place(mixed: Registry) -> None:
    text = text_of(mixed, "acme.com/KYC_EXPIRED")

    assert "<b>" not in section(text, "When it appears")
    assert "\\| bars, \\<b\\>" in section(text, "Evidence")
    assert "````text\n" in section(text, "Examples")
    assert "- acme: `K1`" in text
    assert text.count("\n## ") == 6


def test_words_stay_plain_where_there_is_no_vocabulary_page(core: Registry) -> None:
    text = render_page(core["RCE_RISK"], core, PageLinks("#{}".format), level=2)

    assert text.startswith("## RCE_RISK\n")
    assert "\n### When it appears\n" in text
    assert "| Class | `HARD_BLOCK` |" in text


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda vocabulary: vocabulary.title)
def test_every_word_is_listed_under_its_vocabulary_with_its_meaning(vocabulary: Vocabulary) -> None:
    section = vocabulary_page().partition(f"\n## {vocabulary.title}\n")[2].partition("\n## ")[0]

    assert vocabulary.question in section
    for word in vocabulary.words:
        assert f"| `{word}` | {vocabulary.meaning[word]} |" in section


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

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes import document
from demur.codes.document import ENTRY_FIELDS, RegistryFieldError
from demur.codes.entry import is_code, is_domain
from demur.codes.markup import (
    collapse_to_line,
    escape_cell,
    heading_slug,
    markdown_code,
    markdown_fence,
    markdown_link,
    markdown_prose,
    markdown_table,
)
from demur.source.schema import as_json, load_schema


@pytest.mark.parametrize(
    "cell",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\r=1", " =1", "\n=cmd|' /C calc'!A0", "\uff1d1"],
)
def test_a_cell_that_a_spreadsheet_would_run_becomes_text(cell: str) -> None:
    assert escape_cell(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["", "-", "a=1", "RCE_RISK", "'=1", "7", "a.log"])
def test_other_cells_stay_as_they_are(cell: str) -> None:
    assert escape_cell(cell) == cell


@given(st.text())
def test_a_plain_line_is_printable_words_with_single_spaces(text: str) -> None:
    line = collapse_to_line(text)

    assert line.isprintable()
    assert line == " ".join(line.split())


def test_a_plain_line_keeps_the_words() -> None:
    assert collapse_to_line("  two\nlines\tand\x1b a\u200bcolour ") == "two lines and acolour"


def test_json_keeps_accents_readable_and_ends_its_last_line() -> None:
    assert as_json({"a": "é"}) == '{\n  "a": "é"\n}\n'
    assert json.loads(as_json([1])) == [1]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("RCE_RISK", "`RCE_RISK`"),
        ("a ` b", "``a ` b``"),
        ("`a`", "`` `a` ``"),
        ("two\nlines", "`two lines`"),
    ],
)
def test_a_code_span_takes_as_many_backticks_as_it_needs(text: str, span: str) -> None:
    assert markdown_code(text) == span


@given(st.text(st.sampled_from("`a "), min_size=1).filter(str.strip))
def test_a_code_span_is_never_ended_by_its_text(text: str) -> None:
    span = markdown_code(text)
    runs = re.findall("`+", span)

    assert runs[0] == runs[-1]
    assert runs.count(runs[0]) == 2


@given(st.lists(st.text(st.sampled_from("`a\n")), min_size=1))
def test_a_block_is_never_ended_by_its_text(lines: list[str]) -> None:
    block = markdown_fence(lines)
    ticks = block.partition("text\n")[0]

    assert block.count(ticks) == 2
    assert block == f"{ticks}text\n" + "\n".join(lines) + f"\n{ticks}"


def test_prose_escapes_what_markdown_would_read() -> None:
    assert markdown_prose("*a* [b](c) <d> `e` \\ f_g") == r"\*a\* \[b\](c) \<d\> \`e\` \\ f_g"


def test_prose_links_the_codes_that_have_an_address() -> None:
    known = {"RCE_RISK": "RCE_RISK.md", "acme.com/KYC_OLD": "#old"}

    text = markdown_prose("RCE_RISK, not RCE_RISKY, or acme.com/KYC_OLD.", known.get)

    assert text == "[`RCE_RISK`](RCE_RISK.md), not RCE_RISKY, or [`acme.com/KYC_OLD`](#old)."


def test_a_link_shows_its_name_as_code() -> None:
    assert markdown_link("A", "b.md") == "[`A`](b.md)"


def test_a_slug_is_the_anchor_of_a_heading() -> None:
    assert heading_slug("Refusal class") == "refusal-class"
    assert heading_slug("acme.com/KYC_OLD") == "acmecomkyc_old"


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert markdown_table(("A", "B"), [("a|b", "c")]) == "| A | B |\n| --- | --- |\n| a\\|b | c |"


NAMES = st.text(st.sampled_from("ABZ09_"), max_size=66)
DOMAINS = st.text(st.sampled_from("az09.-"), max_size=12) | st.just("x-local")


SCHEMA = load_schema(document.__file__, document.SCHEMA_VERSION)
PARTS = SCHEMA["$defs"]
CODE_PATTERN = PARTS["core"]["properties"]["code"]["pattern"]
DOMAIN_PATTERN = SCHEMA["properties"]["domain"]["pattern"]
DOMAIN_CODE_PATTERN = PARTS["organisation"]["properties"]["code"]["pattern"]
VERSION_PATTERN = SCHEMA["properties"]["version"]["pattern"]


def matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


@given(NAMES)
def test_the_pattern_of_core_codes_says_what_the_package_says(name: str) -> None:
    assert matches(CODE_PATTERN, name) == is_code(name)


@given(DOMAINS, NAMES)
def test_the_patterns_of_domains_say_what_the_package_says(domain: str, name: str) -> None:
    assert matches(DOMAIN_PATTERN, domain) == is_domain(domain)
    assert matches(DOMAIN_CODE_PATTERN, f"{domain}/{name}") == is_code(f"{domain}/{name}")


def test_a_domain_has_at_most_253_characters() -> None:
    longest = "a." + "b" * 251

    assert is_domain(longest)
    assert matches(DOMAIN_PATTERN, longest)
    assert not matches(DOMAIN_PATTERN, longest + "b")
    assert not matches(DOMAIN_CODE_PATTERN, f"{longest}b/CODE")


@given(st.from_regex(r"[0-9]{1,11}(\.[0-9]{1,3}){1,3}", fullmatch=True))
def test_the_pattern_of_versions_says_what_the_package_says(version: str) -> None:
    try:
        accepted = ENTRY_FIELDS["since"](version) == version
    except RegistryFieldError:
        accepted = False

    assert matches(VERSION_PATTERN, version) == accepted

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.export.markup import (
    markdown_code,
    markdown_fence,
    markdown_link,
    markdown_prose,
    heading_slug,
    markdown_table,
)


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

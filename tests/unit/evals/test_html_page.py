from demur.evals.html_page import render_page, render_section, render_table, escape_text


def test_every_text_is_escaped() -> None:
    assert escape_text('<b a="\'">&\x1b\nx') == "&lt;b a=&quot;&#x27;&quot;&gt;&amp;\\x1b\nx"


def test_a_page_stands_alone() -> None:
    found = render_page("a <title>", ["<p>one</p>", ""])

    assert found.startswith("<!doctype html>")
    assert "<title>a &lt;title&gt;</title>" in found
    assert "default-src &#x27;none&#x27;" in found
    assert "prefers-color-scheme: dark" in found
    for word in ("http://", "https://", "<script", "src=", "@import", "url("):
        assert word not in found


def test_a_section_without_parts_is_none() -> None:
    assert render_section("empty", "", "") == ""
    assert (
        render_section("a & b", "<p>x</p>") == "<section>\n<h2>a &amp; b</h2>\n<p>x</p>\n</section>"
    )


def test_a_table_has_a_head_and_columns_of_words() -> None:
    found = render_table(("a<", "b"), [("1", "long words")], text_columns=(1,))

    assert '<th scope="col">a&lt;</th>' in found
    assert '<td>1</td><td class="words">long words</td>' in found

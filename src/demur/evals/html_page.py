"""A self-contained page: its style inside, no script, nothing fetched, every text escaped."""

from collections.abc import Iterable, Sequence
from html import escape

from demur.errors import one_line

__all__ = ["render_page", "render_section", "render_table", "escape_text"]

# The page must load nothing, whatever a prompt in it contains.
_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_PAGE_STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --dim: #5d6678; --line: #d5dae4;
  --paper: #ffffff; --soft: #f3f5f9; --good: #1b6b43; --bad: #a32020; --unsure: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebf2; --dim: #a2abbd; --line: #39414f;
  --paper: #151920; --soft: #1d232d; --good: #74d6a3; --bad: #ff9c94; --unsure: #f1c268; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .75rem; }
p { margin: .25rem 0; } .dim { color: var(--dim); }
.good { color: var(--good); } .bad { color: var(--bad); } .unsure { color: var(--unsure); }
.verdict { font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .75rem .35rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--dim); font-weight: 500; } th:first-child, td:first-child { text-align: left; }
td.words { text-align: left; white-space: normal; min-width: 14rem; }
article { background: var(--soft); border-radius: .5rem; padding: .75rem 1rem; margin: .5rem 0; }
article p { overflow-wrap: anywhere; white-space: pre-wrap; }
svg.curve { width: 100%; height: auto; max-width: 44rem; }
.range { width: 12rem; height: 1rem; display: block; }
.range rect { fill: var(--line); } .range line { stroke: var(--dim); }
.range circle { fill: currentColor; } .range .span { stroke: currentColor; stroke-width: 3; }
"""


def escape_text(value: object) -> str:
    """Return a value as escaped HTML text."""
    return escape("\n".join(one_line(line) for line in str(value).split("\n")))


def render_page(title: str, parts: Iterable[str]) -> str:
    """Return a whole page."""
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_CONTENT_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape_text(title)}</title>\n<style>{_PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n</main>\n</body>\n</html>\n"
    )


def render_section(title: str, *parts: str) -> str:
    """Return parts under a heading, or nothing if there are none."""
    held = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escape_text(title)}</h2>\n{held}\n</section>" if held else ""


def render_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: Sequence[int] = ()
) -> str:
    """Return a table of cells that are escaped already; `text_columns` hold sentences."""
    top = "".join(f'<th scope="col">{escape_text(cell)}</th>' for cell in head)
    body = "\n".join(
        "<tr>"
        + "".join(
            f'<td class="words">{cell}</td>' if place in text_columns else f"<td>{cell}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table>\n<thead><tr>{top}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )

"""The documentation as a site: `make docs` builds it, and any warning fails the build.

The sources are the Markdown files of the repository, so that one set of relative links holds on a
code hosting site and here. A menu is a page called `index.md`, a page in docs/guides, or one in
`MENUS`: the pages that its tables and lists link to become its entries, in the same order.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
MENUS = {"docs/README", "docs/reference/api", "docs/reference/cli", "docs/reference/codes"}


def _read_version() -> str:
    tree = ast.parse((ROOT / "src/demur/version.py").read_text(encoding="utf-8"))
    values = {ast.unparse(n.targets[0]): n.value for n in tree.body if isinstance(n, ast.Assign)}
    return str(ast.literal_eval(values["__version__"]))


project = "demur"
author = "the demur contributors"
project_copyright = author
release = version = _read_version()

extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = "docs/README"
include_patterns = ["docs/**", "*.md", "spec/semantics.md", "models/README.md"]
exclude_patterns = [
    "docs/site",
    ".*",
    "**/node_modules",
    "bench",
    "build",
    "clients",
    "src",
    "tests",
]
myst_heading_anchors = 6
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"
highlight_language = "text"
# Pygments does not know the SQL of every engine, and colours such a block less.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"demur {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_extra_path = ["extra"]
html_copy_source = False
html_favicon = "../../src/demur/service/dashboard/static/icon.svg"
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

_ENTRY = re.compile(r"^(?:\||[-*] |\d+\. ).*$", re.MULTILINE)
_LINK = re.compile(r"\[([^]]*)\]\((?!\w+:)([^)#\s]+\.md)(?:#[^)]*)?\)")
_FOLDER_LINK = re.compile(r"\[([^]]*)\]\((?!\w+:)([^)#\s]+/)\)")


def list_menu_entries(name: str, text: str) -> dict[str, str]:
    """Return the pages that the tables and lists of a page link to, with the words of the link."""
    entries: dict[str, str] = {}
    for line in _ENTRY.findall(text):
        for words, target in _LINK.findall(line):
            path = (ROOT / PurePosixPath(name).parent / target).resolve()
            entries.setdefault(path.relative_to(ROOT).with_suffix("").as_posix(), words)
    return entries


def is_menu(name: str) -> bool:
    """Return whether a page is a menu."""
    return name in MENUS or name.endswith("/index") or name.startswith("docs/guides/")


def add_menu(_app: Sphinx, name: str, source: list[str]) -> None:
    """Append a hidden table of contents to a menu."""
    if is_menu(name):
        entries = list_menu_entries(name, source[0])
        # The front page names sections shortly; elsewhere a page is called by its own title.
        rows = "".join(
            f"{words} </{entry}>\n" if name == root_doc else f"/{entry}\n"
            for entry, words in entries.items()
        )
        source[0] += f"\n```{{toctree}}\n:hidden:\n:titlesonly:\n\n{rows}```\n"


def drop_folder_links(_app: Sphinx, name: str, source: list[str]) -> None:
    """Keep the words alone of each link to a folder: the site shows pages and files."""

    def drop(found: re.Match[str]) -> str:
        target = ROOT / PurePosixPath(name).parent / found[2]
        return found[1] if target.is_dir() else found[0]

    source[0] = _FOLDER_LINK.sub(drop, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect what changes the sources."""
    app.connect("source-read", drop_folder_links)
    app.connect("source-read", add_menu)
    return {"parallel_read_safe": True}

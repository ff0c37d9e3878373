"""Guards of packages for tests: a distribution that is found for the length of a test."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demur.guards.contract import find_installed

__all__ = ["GOOD", "Install"]

Install = Callable[..., None]

GOOD = """
from demur import Finding
from demur.codes import Surface
from demur.guards import Span

SURFACE = Surface.INPUT
CODES = ("TERM_BLOCKLISTED",)
CONFIG = ("swordfish",)


def check(event, config):
    for word in config:
        at = event.text.find(word)
        if at >= 0:
            span = Span(start=at, end=at + len(word))
            yield Finding(code="TERM_BLOCKLISTED", surface=SURFACE, span=span, detail="a word")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Lend a function that installs a package `acme-guards` of one module and entry points."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    find_installed.cache_clear()

    def make(code: str, points: str = "acme = acme_guard") -> None:
        info = folder / "acme_guards-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-guards\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[demur.guards]\n{points}\n")
        (folder / "acme_guard.py").write_text(code)

    yield make
    sys.modules.pop("acme_guard", None)
    find_installed.cache_clear()

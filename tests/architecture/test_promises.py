"""What code promises in words is kept: invariants by properties, settings by docs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))]
TESTS = "\n".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))
)
INVARIANTS = sorted({words for text in SOURCES for words in re.findall(r"# INVARIANT: (.+)", text)})


def test_there_are_invariants() -> None:
    assert len(INVARIANTS) >= 8


@pytest.mark.parametrize("words", INVARIANTS)
def test_each_invariant_has_a_property_with_the_same_words(words: str) -> None:
    assert f"INVARIANT: {words}" in TESTS


def test_each_setting_is_documented() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    names = {name for text in SOURCES for name in re.findall(r'"(DEMUR_[A-Z_]+)"', text)}

    assert names
    assert all(f"`{name}`" in page for name in names)


def test_importing_demur_loads_nothing_that_is_not_used() -> None:
    code = """if True:
        import sys
        import demur
        outside = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)
        print(sorted(outside - {'demur', '__main__'} - set(sys.argv[1:])))
        print(sorted(name for name in sys.modules if name.startswith('demur.')))
    """
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(*{n.partition('.')[0] for n in sys.modules})"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    ran = subprocess.run(
        [sys.executable, "-c", code, *bare], capture_output=True, text=True, check=True
    )

    assert ran.stdout.split("\n")[:2] == ["[]", "[]"]

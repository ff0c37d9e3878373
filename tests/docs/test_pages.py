"""Every page is true: code runs, commands print what the page says, links lead somewhere."""

import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.example_programs import EXAMPLES, copy_program

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "spec/semantics.md",
    *sorted(
        path
        for path in (ROOT / "docs").rglob("*.md")
        if "reference/codes/" not in path.as_posix()  # one form, checked where it is generated
    ),
]
# A second word says in which environment the block runs.
FENCE = re.compile(r"^```(\w*)(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")


class Block(NamedTuple):
    page: Path
    line: int
    text: str


def blocks(language: str, environment: str | None = None) -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in FENCE.finditer(text):
            if (found[1], found[2]) == (language, environment):
                yield Block(page, text.count("\n", 0, found.start()) + 2, found[3])


def name(block: Block) -> str:
    return f"{block.page.relative_to(ROOT)}:{block.line}"


def run(block: Block) -> None:
    code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")

    exec(code, {"__name__": "page"})  # noqa: S102 - our own pages


@pytest.mark.parametrize("block", list(blocks("python")), ids=name)
def test_every_python_block_runs(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(block)


@pytest.mark.adapters
# Inspect's own.
@pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Unclosed <MemoryObjectReceiveStream:ResourceWarning")
@pytest.mark.parametrize("block", list(blocks("python", "adapters")), ids=name)
def test_every_python_block_runs_in_its_framework(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(block)
    # Inspect leaves a stream open. Collect it here, where its warning is expected.
    gc.collect()


@pytest.mark.frameworks
# The frameworks' own.
@pytest.mark.filterwarnings("ignore:Cannot set an attribute on 'crewai:ImportWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("block", list(blocks("python", "frameworks")), ids=name)
def test_every_python_block_runs_in_frameworks(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CREWAI_DISABLE_TELEMETRY", "true")
    run(block)


@pytest.mark.litellm
@pytest.mark.parametrize("block", list(blocks("python", "litellm")), ids=name)
def test_every_python_block_runs_with_litellm(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    run(block)


def test_every_environment_of_a_block_is_known() -> None:
    known = {None, "adapters", "frameworks", "litellm"}
    named = {found[2] for page in PAGES for found in FENCE.finditer(page.read_text("utf-8"))}

    assert named <= known


def acme(version: str, *codes: tuple[str, str]) -> dict[str, Any]:
    rows = [
        {"code": code, "description": text, "parent": "CONTEXT_MISSING", "since": "1.0.0"}
        for code, text in codes
    ]
    head = {"schema_version": "reason_codes.v1", "version": version, "domain": "acme.com"}
    return {**head, "codes": rows}


# Files that a page takes for granted.
FILES: dict[str, dict[str, Any]] = {
    "change-a-registry.md": {
        "old.json": acme("1.0.0", ("acme.com/KYC_EXPIRED", "Identity check out of date.")),
        "new.json": acme(
            "1.1.0",
            ("acme.com/KYC_EXPIRED", "The identity check is out of date."),
            ("acme.com/KYC_REVOKED", "The identity check was withdrawn."),
        ),
    },
    "train-a-guard.md": {
        "heron.jsonl": (ROOT / "examples/rows/heron.jsonl").read_text(encoding="utf-8")
    },
}


# Pages that walk through a program, whose folder their commands run in.
PROGRAMS = {
    ROOT / "docs/tutorial/support-agent.md": "support_agent",
    ROOT / "docs/tutorial/coding-agent.md": "coding_agent",
    ROOT / "docs/tutorial/rag-assistant.md": "rag_assistant",
}

# The languages of files that such a page shows parts of.
SHOWN = {".ini": "ini", ".py": "py", ".toml": "toml", ".yaml": "yaml"}


NAMED = re.compile(r"# ([\w.-]+\.(?:py|yaml))\n")


def named_files(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the files that a page shows whole: blocks that begin with the file's name."""
    for block in (*blocks("yaml"), *blocks("python")):
        if block.page == page and (named := NAMED.match(block.text)):
            yield named[1], block.text


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with the output that the page shows for it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


@pytest.mark.parametrize(
    "page", sorted({b.page for b in blocks("console")}), ids=lambda page: page.name
)
def test_every_command_prints_what_its_page_says(page: Path, tmp_path: Path) -> None:
    for file, content in FILES.get(page.name, {}).items():
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / file).write_text(text, encoding="utf-8")
    for file, text in named_files(page):
        (tmp_path / file).write_text(text, encoding="utf-8")
    if page in PROGRAMS:
        copy_program(PROGRAMS[page], tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shown = [pair for b in blocks("console") if b.page == page for pair in commands(b)]
    for command, output in shown:
        ran = subprocess.run(
            ["bash", "-c", command],  # noqa: S607 - the pages are written for a shell
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "COLUMNS": "88", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

        assert ran.stdout + ran.stderr == output, command


def strip_lines(text: str) -> str:
    """Return a text without the indentation of its lines, which a part of a file may lack."""
    return "\n".join(line.strip() for line in text.splitlines())


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.name)
def test_a_page_shows_its_program_as_it_is(page: Path) -> None:
    files = [path for path in (EXAMPLES / PROGRAMS[page]).iterdir() if path.suffix in SHOWN]
    texts = [strip_lines(path.read_text(encoding="utf-8")) for path in files]
    excerpts = [b for kind in SHOWN.values() for b in blocks(kind) if b.page == page]

    assert excerpts
    for excerpt in excerpts:
        assert any(strip_lines(excerpt.text) in text for text in texts), name(excerpt)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_number_of_codes_on_the_front_page_is_true() -> None:
    rows = json.loads((ROOT / "src/demur/codes/reason_codes.v1.json").read_text())["codes"]

    assert f"**[{len(rows)} reason codes]" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_map_of_contributors_names_each_tool_once() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tools = text.partition("\ntools/")[2].partition("```")[0]
    named = re.findall(r"(?<![\w*])\w+\.py\b", tools)
    pages = {path.name for path in (ROOT / "tools").glob("*_page.py")}

    assert sorted(named) == sorted(
        path.name for path in (ROOT / "tools").glob("*.py") if path.name not in pages
    )


def test_contributors_read_what_ci_runs() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    sentence = text.partition("`.ci/run` is")[2].partition(".")[0]

    assert re.findall(r"`(make [^`]+)`", sentence) == re.findall(r"^make .+$", script, re.MULTILINE)


# What a page may use, and the extra that this needs.
NEEDS = {
    "demur serve": "service",
    "demur grant keygen": "ed25519",
    "postgresql://": "postgres",
    "redis://": "redis",
}


@pytest.mark.parametrize("use", NEEDS)
def test_a_page_that_needs_an_extra_names_it(use: str) -> None:
    texts = {page: page.read_text("utf-8") for page in PAGES if "reference" not in page.parts}
    extra = re.compile(rf"demur\[[\w,-]*\b(?:all|{NEEDS[use]})\b")
    silent = [page.name for page, text in texts.items() if use in text and not extra.search(text)]

    assert silent == []

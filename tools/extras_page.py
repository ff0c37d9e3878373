"""Write what follows from the extras in `pyproject.toml`: their page and the lock of `make dev`."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from demur.codes.markup import markdown_code, markdown_table

ROOT = Path(__file__).resolve().parent.parent
# What each extra is for; those of the first table are in `demur[all]`.
RUNTIME = {
    "arrow": "decisions in Parquet files; triage, detection and guards on Spark or Ray",
    "ed25519": "grants that gates can verify but not sign (`demur grant keygen`)",
    "evals": "`demur eval` against a model over HTTP",
    "guards": "faster text guards",
    "learned": "learned models in addition to the rules, with the package `demur-models`",
    "mcp-proxy": "`demur mcp proxy` for a server over HTTP",
    "memory": "fast search among very many experiences",
    "observe": "metrics and traces in your own process",
    "people": "people who log in to the dashboard, by password or OpenID Connect (`demur people`)",
    "postgres": "a store in PostgreSQL",
    "redis": "rate limits that processes share",
    "service": "the HTTP service and the dashboard (`demur serve`)",
    "triage": "faster `demur triage`, and logs packed with zstd",
    "web": "the middleware for FastAPI and Starlette",
}
FRAMEWORKS = {
    "anthropic": "the Anthropic client",
    "claude-agent-sdk": "the Claude Agent SDK",
    "crewai": "CrewAI",
    "deepagents": "deepagents",
    "fastmcp": "FastMCP servers",
    "google-adk": "Google ADK",
    "inspect": "Inspect",
    "langchain": "LangChain and LangGraph",
    "litellm": "LiteLLM",
    "llamaindex": "LlamaIndex",
    "mcp": "MCP servers of the Python SDK",
    "openai": "the OpenAI client",
    "onnx": "a classifier of your own as an ONNX file",
    "openai-agents": "OpenAI Agents",
    "pydantic-ai": "Pydantic AI",
    "train": "training with preference pairs (`demur eval train`)",
    "transformers": "a classifier of your own as a `transformers` pipeline",
}
# `make dev` installs these, and the tools that build demur itself.
DEV_EXTRAS = ("ed25519", "learned", "service")
BUILD_TOOLS = ("editables", "hatchling")
# Of `people`, what passwords need; the rest is for identity providers.
PASSWORDS = ("argon2-cffi",)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REQUIREMENT = re.compile(r"(?m)^(?=[a-z0-9])")
_INTRO = """\
The core needs four small packages and no extra. Install an extra by its name,
`pip install 'demur[service]'`, several with commas, or all of the first table with
`pip install 'demur[all]'`. A command that lacks one says which to install."""


def project_settings(root: Path = ROOT) -> dict[str, Any]:
    """Return the `[project]` table of `pyproject.toml`."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert isinstance(project, dict)
    return project


def extras_page() -> str:
    """Return the page in `docs/reference/`: every extra, and what it is for."""
    extras = project_settings()["optional-dependencies"]
    parts = ["<!-- Generated from pyproject.toml; do not edit. -->", "# Extras", _INTRO]
    for title, table in (("In `demur[all]`", RUNTIME), ("Frameworks and training", FRAMEWORKS)):
        rows = (
            (markdown_code(name), use, ", ".join(map(package_name, extras[name])))
            for name, use in table.items()
        )
        parts += [f"## {title}", markdown_table(("Extra", "For", "Installs"), rows)]
    return "\n\n".join(parts) + "\n"


def package_name(requirement: str) -> str:
    """Return the normalised name of the package that a requirement is about."""
    found = _NAME.match(requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def read_lock(text: str) -> dict[str, list[str]]:
    """Return the entries of a lock by package; a package may have one for each Python version."""
    entries: dict[str, list[str]] = {}
    for entry in _REQUIREMENT.split(text):
        if entry.strip():
            entries.setdefault(package_name(entry), []).append(entry)
    return entries


def run_packages() -> set[str]:
    """Return the names of all packages that `make dev` needs, with those that they need."""
    project = project_settings()
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *BUILD_TOOLS, *PASSWORDS]
    wanted += [requirement for extra in DEV_EXTRAS for requirement in extras[extra]]
    names: set[str] = set()
    while wanted:
        name = package_name(wanted.pop())
        if name in names:
            continue
        names.add(name)
        try:
            # Markers are left to the lock, which serves every platform; extras are not installed.
            wanted += [one for one in requires(name) or () if "extra ==" not in one]
        except PackageNotFoundError:
            # A package for another platform.
            continue
    return names


def run_lock() -> str:
    """Return the part of the developers' lock that `make dev` installs."""
    lock = read_lock((ROOT / "requirements/dev.txt").read_text(encoding="utf-8"))
    kept = run_packages()
    return "".join(entry for name, part in lock.items() if name in kept for entry in part)


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of each file that follows from the extras."""
    yield "docs/reference/extras.md", extras_page()
    yield "requirements/run.txt", run_lock()

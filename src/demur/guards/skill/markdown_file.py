"""Markdown: instructions to an agent, what is hidden in them, and the code in fences.

A file that hosts hand to the agent (`SKILL.md`, a command, a prompt) is an instruction; what
a README says is for people first, so the same words weigh one step less there.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from demur.guards.skill.bundle import SkillConfig
from demur.guards.skill.document import Document
from demur.guards.skill.hidden_text import see_hidden
from demur.guards.skill.instruction import see_instructions
from demur.guards.skill.manifest_file import scan_front_matter
from demur.guards.skill.python_file import scan_python
from demur.guards.skill.shell_file import scan_shell
from demur.guards.skill.sighting import Sighting, milder

__all__ = ["is_instruction", "scan_markdown"]

_READ_BY_AGENTS = frozenset(
    {"agents.md", "claude.md", "gemini.md", "skill.md", "copilot-instructions.md", ".cursorrules"}
)
_FOLDERS = frozenset({"agents", "commands", "prompts", "rules", "skills", "references"})
_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n]*\n"
    r"(?P<body>.*?)(?:^[ \t]*(?P=mark)[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SHELLS = frozenset({"bash", "console", "sh", "shell", "shell-session", "zsh"})
_PYTHON = frozenset({"py", "python", "python3"})
_PROMPT = re.compile(r"^[ \t]*(?:\$|%|>|#)[ \t]", re.MULTILINE)
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*$", re.MULTILINE | re.DOTALL)
_ON_LOAD = re.compile(r"(?:^|(?<=\s))!`([^`\n]+)`", re.MULTILINE)


class _Fence(NamedTuple):
    language: str
    start: int
    text: str


def is_instruction(path: str) -> bool:
    """Return whether hosts hand the file to an agent."""
    place = PurePosixPath(path)
    folders = {part.lower() for part in place.parts[:-1]}
    return place.name.lower() in _READ_BY_AGENTS or bool(folders & _FOLDERS)


def scan_markdown(document: Document, config: SkillConfig) -> Iterator[Sighting]:
    """Yield instructions, hidden text, and the hits in commands and code of the text."""
    heeded = is_instruction(document.path)
    for seen in _all(document, config):
        if heeded or seen.action is None:
            yield seen
        else:
            yield seen._replace(action=milder(seen.action))


def _all(document: Document, config: SkillConfig) -> Iterator[Sighting]:
    text = document.text
    yield from see_hidden(text, list(see_instructions(text)))
    yield from _front(text, config)
    for found in _ON_LOAD.finditer(text):
        yield Sighting("RUNS_ON_LOAD", *found.span(), "a command that runs when this is loaded")
        yield from _moved(scan_shell(found[1]), found.start(1))
    for fence in _fences(text):
        yield from _code(document.path, fence, config)


def _front(text: str, config: SkillConfig) -> Iterator[Sighting]:
    found = _FRONT.match(text)
    if found:
        yield from _moved(scan_front_matter(found[1], config), found.start(1))


def _moved(sightings: Iterator[Sighting], by: int) -> Iterator[Sighting]:
    for seen in sightings:
        yield seen._replace(start=seen.start + by, end=seen.end + by)


def _fences(text: str) -> Iterator[_Fence]:
    for found in _FENCE.finditer(text):
        yield _Fence(found["language"].lower(), found.start("body"), found["body"])


def _code(path: str, fence: _Fence, config: SkillConfig) -> Iterator[Sighting]:
    if fence.language in _SHELLS:
        # Replace each prompt by spaces, so that offsets stay the same.
        text = fence.text
        if fence.language in {"console", "shell-session"} or _PROMPT.match(text):
            text = _commands(text)
        yield from _moved(scan_shell(text), fence.start)
    elif fence.language in _PYTHON:
        yield from _python(path, fence, config)


def _commands(text: str) -> str:
    """Return the lines after a prompt at their offsets; output lines become blanks."""
    lines = []
    for line in text.split("\n"):
        found = _PROMPT.match(line)
        lines.append(" " * found.end() + line[found.end() :] if found else " " * len(line))
    return "\n".join(lines)


def _python(path: str, fence: _Fence, config: SkillConfig) -> Iterator[Sighting]:
    lines = fence.text.splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    if indent == 0:
        inner = Document(path, fence.text)
        yield from _moved(scan_python(inner, config, snippet=True), fence.start)
        return
    # Parse an indented fence as the body of a block, so that offsets stay the same.
    inner = Document(path, f"if 1:\n{fence.text}")
    yield from _moved(scan_python(inner, config, snippet=True), fence.start - len("if 1:\n"))

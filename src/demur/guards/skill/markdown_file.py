"""Markdown: instructions to an agent, what is hidden in them, and the code in fences.

A file that hosts hand to the agent (`SKILL.md`, a command, a prompt) is an instruction; what
a README says is for people first, so the same words weigh one step less there.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from demur.guards.skill.bundle import SkillConfig
from demur.guards.skill.document import SourceText
from demur.guards.skill.hidden_text import find_hidden_text
from demur.guards.skill.instruction import find_instructions
from demur.guards.skill.manifest_file import scan_front_matter
from demur.guards.skill.python_file import scan_python
from demur.guards.skill.shell_file import scan_shell
from demur.guards.skill.sighting import SkillHit, soften_action

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
_SHELL_FENCES = frozenset({"bash", "console", "sh", "shell", "shell-session", "zsh"})
_PYTHON_FENCES = frozenset({"py", "python", "python3"})
_PROMPT = re.compile(r"^[ \t]*(?:\$|%|>|#)[ \t]", re.MULTILINE)
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*$", re.MULTILINE | re.DOTALL)
_ON_LOAD = re.compile(r"(?:^|(?<=\s))!`([^`\n]+)`", re.MULTILINE)


class _CodeFence(NamedTuple):
    language: str
    start: int
    text: str


def is_instruction(path: str) -> bool:
    """Return whether hosts hand the file to an agent."""
    place = PurePosixPath(path)
    folders = {part.lower() for part in place.parts[:-1]}
    return place.name.lower() in _READ_BY_AGENTS or bool(folders & _FOLDERS)


def scan_markdown(document: SourceText, config: SkillConfig) -> Iterator[SkillHit]:
    """Yield instructions, hidden text, and the hits in commands and code of the text."""
    heeded = is_instruction(document.path)
    for seen in _scan_text(document, config):
        if heeded or seen.action is None:
            yield seen
        else:
            yield seen._replace(action=soften_action(seen.action))


def _scan_text(document: SourceText, config: SkillConfig) -> Iterator[SkillHit]:
    text = document.text
    yield from find_hidden_text(text, list(find_instructions(text)))
    yield from _scan_front(text, config)
    for found in _ON_LOAD.finditer(text):
        yield SkillHit("RUNS_ON_LOAD", *found.span(), "a command that runs when this is loaded")
        yield from _shift_hits(scan_shell(found[1]), found.start(1))
    for fence in _find_fences(text):
        yield from _scan_fence(document.path, fence, config)


def _scan_front(text: str, config: SkillConfig) -> Iterator[SkillHit]:
    found = _FRONT.match(text)
    if found:
        yield from _shift_hits(scan_front_matter(found[1], config), found.start(1))


def _shift_hits(hits: Iterator[SkillHit], offset: int) -> Iterator[SkillHit]:
    for seen in hits:
        yield seen._replace(start=seen.start + offset, end=seen.end + offset)


def _find_fences(text: str) -> Iterator[_CodeFence]:
    for found in _FENCE.finditer(text):
        yield _CodeFence(found["language"].lower(), found.start("body"), found["body"])


def _scan_fence(path: str, fence: _CodeFence, config: SkillConfig) -> Iterator[SkillHit]:
    if fence.language in _SHELL_FENCES:
        # Replace each prompt by spaces, so that offsets stay the same.
        text = fence.text
        if fence.language in {"console", "shell-session"} or _PROMPT.match(text):
            text = _prompt_commands(text)
        yield from _shift_hits(scan_shell(text), fence.start)
    elif fence.language in _PYTHON_FENCES:
        yield from _scan_python_fence(path, fence, config)


def _prompt_commands(text: str) -> str:
    """Return the lines after a prompt at their offsets; output lines become blanks."""
    lines = []
    for line in text.split("\n"):
        found = _PROMPT.match(line)
        lines.append(" " * found.end() + line[found.end() :] if found else " " * len(line))
    return "\n".join(lines)


def _scan_python_fence(path: str, fence: _CodeFence, config: SkillConfig) -> Iterator[SkillHit]:
    lines = fence.text.splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    if indent == 0:
        inner = SourceText(path, fence.text)
        yield from _shift_hits(scan_python(inner, config, snippet=True), fence.start)
        return
    # Parse an indented fence as the body of a block, so that offsets stay the same.
    inner = SourceText(path, f"if 1:\n{fence.text}")
    yield from _shift_hits(scan_python(inner, config, snippet=True), fence.start - len("if 1:\n"))

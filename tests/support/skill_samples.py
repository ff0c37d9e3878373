"""Skills made of a few lines, and what the guard sees in them."""

from collections.abc import Mapping
from typing import Any

from demur.guards.skill.event import Skill, SkillConfig
from demur.guards.skill.guard import check
from demur.model.finding import Action, Finding

__all__ = ["actions", "blocks", "findings", "seen"]


def findings(files: Mapping[str, str | bytes], **config: Any) -> list[Finding]:
    """Return what is found in a skill of these files."""
    raw = {
        path: content.encode() if isinstance(content, str) else content
        for path, content in files.items()
    }
    return list(check(Skill(files=raw), SkillConfig(**config)))


def seen(content: str | bytes, path: str = "run.py", **config: Any) -> set[str]:
    """Return the rules that hit in one file."""
    return {found.evidence["rule"] for found in findings({path: content}, **config)}


def actions(content: str | bytes, path: str = "run.py", **config: Any) -> dict[str, Action]:
    """Return the rules that hit in one file, and what each asks for."""
    return {found.evidence["rule"]: found.action for found in findings({path: content}, **config)}


def blocks(content: str | bytes, path: str = "run.py", **config: Any) -> set[str]:
    """Return the codes that block in one file."""
    every = findings({path: content}, **config)
    return {found.code for found in every if found.action is Action.BLOCK}

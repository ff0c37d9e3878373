"""The event of this surface: the text that is about to run, and what would run it."""

from enum import StrEnum

import msgspec

__all__ = ["Command", "Language"]


class Language(StrEnum):
    """The language of the text; `auto` detects it, and every likely language is read."""

    AUTO = "auto"
    SHELL = "shell"
    PYTHON = "python"
    POWERSHELL = "powershell"
    CMD = "cmd"


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command or a piece of code that is about to run, and the folder it would run in."""

    text: str
    language: Language = Language.AUTO
    cwd: str | None = None

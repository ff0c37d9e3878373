"""The guard of commands and code: the event of its surface, and its settings."""

from enum import StrEnum

import msgspec


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


class CommandConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the command guard. The defaults suit an agent in one working folder.

    Attributes:
        workspace: Folders in which the agent may write and delete; empty: the folder of the
            event. Without either, every relative path counts as inside.
        scratch: Folders whose content may be deleted.
        allow: Shell patterns (`npm run *`) of commands that are never reported. Each command
            of a list or pipeline is matched on its own.
        deny: Shell patterns of commands that are always reported.
        hosts: Hosts that may be reached (`*.example.com`); None: any.
        branches: Patterns of the branches that no force push may reach.
        imports: Python modules whose import is never reported.
        off: Ids of rules that are switched off.
        longest: How many characters are read; a longer text is reported as too long.
    """

    workspace: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - names, not files
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    branches: tuple[str, ...] = ("main", "master", "release*", "production", "trunk")
    imports: tuple[str, ...] = ()
    off: frozenset[str] = frozenset()
    longest: int = 100_000

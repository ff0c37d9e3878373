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


class FileOperation(StrEnum):
    """What a tool does with a file; `unknown` may be any of them."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    UNKNOWN = "unknown"


class FileAccess(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a tool would read or write.

    Attributes:
        path: The path as the tool gets it.
        argument: The argument that holds it, such as `edits.0.path`.
        resolved: The path that links lead to, where the host has looked it up.
        content: The text that the tool would write.
        whole: Whether `content` replaces the whole file.
        tree: Whether the operation concerns all that a folder holds.
        is_named: Whether the names of tool and argument say that it is a file.
    """

    path: str
    operation: FileOperation = FileOperation.UNKNOWN
    argument: str = ""
    resolved: str | None = None
    content: str | None = None
    whole: bool = False
    tree: bool = False
    is_named: bool = True


class FileRequest(Command, frozen=True, kw_only=True):
    """The files that a tool call would read or write; `text` holds their paths, one a line.

    `cwd` is the folder that the call names. It lifts no rule, since the tool can ignore it.
    """

    accesses: tuple[FileAccess, ...] = ()


class CommandConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the command guard. The defaults suit an agent in one working folder.

    Attributes:
        workspace: Folders in which the agent may write and delete; empty: the folder of the
            event. Without either, every relative path counts as inside.
        scratch: Folders whose content may be deleted.
        protected: Files and folders that nothing may change without approval; an enforcer that
            demur opens adds its own program, package, interpreter, settings and store.
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
    protected: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    branches: tuple[str, ...] = ("main", "master", "release*", "production", "trunk")
    imports: tuple[str, ...] = ()
    off: frozenset[str] = frozenset()
    longest: int = 100_000

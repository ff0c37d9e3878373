"""`demur hook install`: add demur's hooks to a host's settings, after showing the diff."""

import difflib
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

from demur.cli.main import Arguments
from demur.cli.terminal import Paint
from demur.enforce.opening import own_paths
from demur.errors import InputError
from demur.integrations.claude_code.settings import (
    SHARED_PREFIX,
    add_hooks,
    dump_settings,
    parse_settings,
    read_settings_file,
    remove_hooks,
    replace_settings_file,
)

__all__ = ["configure_hook_install", "run_hook_install"]

_DECLINED = 3
_NOT_INTERACTIVE = 4
_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def configure_hook_install(add: Arguments) -> None:
    """Add the command's arguments."""
    add("host", "the host", choices=["claude-code"])
    where = add.either()
    where("--settings PATH", "the settings file to change", type=Path)
    where("--user", "for all your projects: ~/.claude/settings.json")
    where("--local", "for you in this folder, the default: .claude/settings.local.json")
    where("--project", "for everybody who works on this folder: .claude/settings.json")
    add("--remove", "remove demur's hooks, and nothing else")
    add("--yes", "do not ask before changing the file")
    add("--config FILE", "the demur settings for the hooks", type=Path)
    add("--pin FILE ...", "a file of rules that must survive compaction; repeatable", type=Path)
    add("--ask", "ask the user for approval instead of refusing")
    add("--no-halt", "let the agent continue after a hard block")
    add("--no-warm", "run without a daemon; slower")


def run_hook_install(args: Namespace) -> int:
    """Show the diff, ask, and write the settings."""
    file = read_settings_file(_settings_path(args))
    before = parse_settings(file.text, str(file.path))
    after = remove_hooks(before) if args.remove else add_hooks(before, _hook_command(args))
    if after == before:
        print(f"nothing to do: {file.path} is up to date")
        return 0
    text = dump_settings(after, file.text)
    paint = Paint()
    old = str(file.path) if file.exists else os.devnull
    lines = difflib.unified_diff(
        file.text.splitlines(), text.splitlines(), old, str(file.path), lineterm=""
    )
    for line in lines:
        colour = _DIFF_COLOURS.get(line[:1])
        print(paint(line, colour) if colour else line)
    if not args.yes:
        if not sys.stdin.isatty():
            print(
                "nothing was changed: use --yes to change the file without asking", file=sys.stderr
            )
            return _NOT_INTERACTIVE
        if input("change this file? [y/N] ").strip().lower() not in {"y", "yes"}:
            print("nothing was changed")
            return _DECLINED
    copy = replace_settings_file(file, text)
    print(f"changed {file.path}" + ("" if copy is None else f"; the backup is {copy}"))
    if not args.remove:
        own = [args.config, *args.pin, file.path]
        notes = [*describe_writable_files(path for path in own if path is not None)]
        if not (args.project or args.user or args.settings) and _would_be_shared(file.target):
            notes.append(
                f"git does not ignore {file.path}, which names paths of this machine: add it to "
                ".gitignore, or use --project for settings that a team shares"
            )
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    return 0


def _would_be_shared(path: Path) -> bool:
    """Return whether a file lies in a repository of git that does not ignore it."""
    git = shutil.which("git")
    if git is None:
        return False
    words = [git, "check-ignore", "--quiet", str(path)]
    ran = subprocess.run(words, cwd=path.parent, capture_output=True, check=False)  # noqa: S603 - git
    # 1 says that it is not ignored; outside of a repository it is 128.
    return ran.returncode == 1


def describe_writable_files(files: Iterable[Path]) -> Iterator[str]:
    """Yield a note if an agent with the rights of this user could replace demur or its settings."""
    paths = dict.fromkeys([*map(Path, own_paths()), *files])
    writable = [path for path in paths if path.exists() and os.access(path, os.W_OK)]
    if writable:
        shown = ", ".join(str(path) for path in writable[:3])
        more = f" and {len(writable) - 3} more" if len(writable) > 3 else ""
        yield (
            f"an agent that runs as you can write {shown}{more}; demur holds such calls, but not a "
            "program that the agent wrote: install demur and its settings as another user"
        )


def _settings_path(args: Namespace) -> Path:
    if args.settings is not None:
        return Path(args.settings)
    if args.user:
        home = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(home) if home else Path.home() / ".claude") / "settings.json"
    return Path(".claude") / ("settings.json" if args.project else "settings.local.json")


def _hook_command(args: Namespace) -> list[str]:
    """Return the command line of the hooks."""
    words = [*_demur_command(args), "hook", "claude-code"]
    if args.config is not None:
        words += ["--config", _portable_path(args, args.config)]
    for pin in args.pin:
        words += ["--pin", _portable_path(args, pin)]
    words += ["--ask"] * args.ask + ["--no-halt"] * args.no_halt
    return words + ["--warm"] * (not args.no_warm)


def _demur_command(args: Namespace) -> list[str]:
    """Return the command that starts demur: by name in a shared file, or else this interpreter.

    Raises:
        InputError: The interpreter finds demur only through the environment.
    """
    if args.project:
        return [*SHARED_PREFIX, "demur"]
    # `-I`: the environment and the folder of a project decide nothing about what is imported.
    command = [sys.executable, "-I", "-m", "demur"]
    try:
        ran = subprocess.run([*command, "--version"], capture_output=True, check=False)  # noqa: S603 - this interpreter
    except OSError as error:
        raise InputError("cannot start this interpreter", where=sys.executable) from error
    if ran.returncode:
        problem = "this interpreter finds demur only through PYTHONPATH or the user's packages"
        help_text = "install demur into a virtual environment, and install the hook from there"
        raise InputError(problem, where=sys.executable, help=help_text)
    return command


def _portable_path(args: Namespace, path: Path) -> str:
    """Return an absolute path, or one relative to the project in settings that a team shares."""
    if not path.is_file():
        raise InputError("the file does not exist", where=str(path))
    whole = path.resolve()
    if args.project and whole.is_relative_to(Path.cwd().resolve()):
        return f"$CLAUDE_PROJECT_DIR/{whole.relative_to(Path.cwd().resolve()).as_posix()}"
    return str(whole)

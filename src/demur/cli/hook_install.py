"""`demur hook install`: add demur's hooks to a host's settings, after showing the diff."""

import difflib
import os
import shutil
import sys
from argparse import Namespace
from pathlib import Path

from demur.cli.main import Arguments
from demur.cli.terminal import Paint
from demur.errors import InputError
from demur.integrations.claude_code.settings import (
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
    where("--project", "for this folder, the default: .claude/settings.json")
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
    return 0


def _settings_path(args: Namespace) -> Path:
    if args.settings is not None:
        return Path(args.settings)
    if args.user:
        home = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(home) if home else Path.home() / ".claude") / "settings.json"
    return Path(".claude") / "settings.json"


def _hook_command(args: Namespace) -> list[str]:
    """Return the command line of the hooks."""
    words = [*_demur_command(), "hook", "claude-code"]
    if args.config is not None:
        words += ["--config", _portable_path(args, args.config)]
    for pin in args.pin:
        words += ["--pin", _portable_path(args, pin)]
    words += ["--ask"] * args.ask + ["--no-halt"] * args.no_halt
    return words + ["--warm"] * (not args.no_warm)


def _demur_command() -> list[str]:
    """Return the command that starts demur: by name, or else by this interpreter."""
    if shutil.which("demur") is not None:
        return ["demur"]
    # `-P`: never import from the folder of the project.
    return [sys.executable, "-P", "-m", "demur"]


def _portable_path(args: Namespace, path: Path) -> str:
    """Return an absolute path, or one relative to the project in a project's own settings."""
    if not path.is_file():
        raise InputError("the file does not exist", where=str(path))
    whole = path.resolve()
    own = args.settings is None and not args.user
    if own and whole.is_relative_to(Path.cwd().resolve()):
        return f"$CLAUDE_PROJECT_DIR/{whole.relative_to(Path.cwd().resolve()).as_posix()}"
    return str(whole)

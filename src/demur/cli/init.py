"""`demur init`: create a working folder with settings, a policy, samples, and a store."""

import argparse
import os
import shlex
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from demur.cli.files import write_file
from demur.cli.terminal import Paint
from demur.cli.workspace import create_private_store, read_settings
from demur.enforce.open_enforcer import read_agent_policy
from demur.errors import InputError
from demur.gate.config import CONFIG_NAME, open_configured_store

__all__ = ["list_agent_templates", "configure_init", "run_init", "list_templates"]

_FILE_NOTES = {
    CONFIG_NAME: "the settings",
    "policy.yaml": "the rules of a small support desk, to adapt",
    "policy.test.yaml": "test cases for the rules",
    "samples": "requests to try: allowed, escalated, denied, unjudged",
}
_NEXT_STEPS = (
    ("demur decide samples/small-refund.json", "decide a request"),
    ("demur decide samples/large-refund.json", "decide one that needs approval"),
    ("demur explain last", "explain the last decision"),
    ("demur policy test policy.yaml policy.test.yaml", "test the rules after each change"),
    ("demur doctor", "check the folder"),
)
_AGENT_FILE_NOTES = {
    CONFIG_NAME: "the settings",
    "policy.yaml": "what an agent may do: guards decide, and a few rules to adapt",
    "policy.test.yaml": "test cases for the rules",
}
_AGENT_NEXT_STEPS = (
    (
        "python -c \"import demur; print(demur.open_enforcer().prompt('Hi').allowed)\"",
        "check a prompt",
    ),
    ("demur explain last", "explain the last decision"),
    ("demur policy test policy.yaml policy.test.yaml", "test the rules after each change"),
    ("demur doctor", "check the folder"),
)


class TemplateFile(NamedTuple):
    """A file to create: its path in the folder, and its text."""

    path: str
    text: str


def configure_init(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the folder; default: here",
    )
    parser.add_argument(
        "--agent",
        action="store_true",
        help="use the policy for agents: guards decide, and large amounts need approval",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace existing files; an existing store is always kept",
    )


def run_init(args: argparse.Namespace) -> int:
    """Create the folder, and print the next steps."""
    folder: Path = args.folder
    made = list(list_agent_templates() if args.agent else list_templates())
    there = [template.path for template in made if (folder / template.path).exists()]
    if there and not args.force:
        raise InputError(
            f"already exists: {', '.join(there)}",
            where=str(folder),
            help="choose another folder, or replace these files with --force (never the store)",
        )
    for template in made:
        path = folder / template.path
        _make_folder(path.parent)
        write_file(path, template.text)
    new = _make_store(folder)
    print("\n".join(_describe_folder(folder, Paint(), new_store=new, agent=args.agent)))
    named = os.environ.get("DEMUR_CONFIG")
    if named:
        print(f"note: DEMUR_CONFIG names {named}: commands use that file, not this folder")
    return 0


def list_templates() -> Iterator[TemplateFile]:
    """Yield the files of a working folder."""
    return _walk_templates(files("demur.cli") / "templates", "")


def list_agent_templates() -> Iterator[TemplateFile]:
    """Yield the files of a working folder for agents: the same settings, and another policy."""
    usual = {template.path: template for template in list_templates()}
    yield usual[CONFIG_NAME]
    yield TemplateFile("policy.yaml", read_agent_policy())
    yield from _walk_templates(files("demur.cli") / "templates_agent", "")


def _walk_templates(folder: Traversable, before: str) -> Iterator[TemplateFile]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        path = f"{before}{item.name}"
        if item.is_dir():
            yield from _walk_templates(item, f"{path}/")
        else:
            yield TemplateFile(path, item.read_text(encoding="utf-8"))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"cannot create the folder: {reason}", where=str(folder)) from error


def _make_store(folder: Path) -> bool:
    """Create the store that the settings name; return whether it is new."""
    config = read_settings(folder / CONFIG_NAME)
    new = not Path(config.store).exists()
    create_private_store(config)
    store = open_configured_store(config)
    assert store is not None
    store.close()
    return new


def _describe_folder(folder: Path, paint: Paint, *, new_store: bool, agent: bool) -> Iterator[str]:
    store = f"the store{', empty' if new_store else ', unchanged'}"
    about = {**(_AGENT_FILE_NOTES if agent else _FILE_NOTES), "demur.db": store}
    after = _AGENT_NEXT_STEPS if agent else _NEXT_STEPS
    here = folder == Path()
    yield paint("made here:" if here else f"made in {folder}:", "bold")
    space = max(map(len, about))
    for name, words in about.items():
        yield f"  {paint(name.ljust(space), 'cyan')}  {words}"
    yield paint("next:", "bold")
    steps = list(after) if here else [(f"cd {shlex.quote(str(folder))}", ""), *after]
    space = max(len(step) for step, _ in steps)
    for step, words in steps:
        yield f"  {step.ljust(space)}  {paint(words, 'dim')}".rstrip()

"""`demur init`: a working folder to begin with: settings, a policy, samples, and a store."""

import argparse
import os
import shlex
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from demur.cli.files import write
from demur.cli.terminal import Paint
from demur.cli.workspace import make_private, read_settings
from demur.enforce.open_enforcer import agent_policy
from demur.errors import InputError
from demur.gate.config import CONFIG_NAME, open_configured_store

__all__ = ["agent_templates", "configure", "run", "templates"]

_ABOUT = {
    CONFIG_NAME: "the settings",
    "policy.yaml": "the rules of a small support desk, to be made yours",
    "policy.test.yaml": "what the rules must conclude, case by case",
    "samples": "requests to try: allowed, escalated, denied, not to be judged",
}
_NEXT = (
    ("demur decide samples/small-refund.json", "decide a request"),
    ("demur decide samples/large-refund.json", "one that waits for a person"),
    ("demur explain last", "why it was decided so"),
    ("demur policy test policy.yaml policy.test.yaml", "after each change of a rule"),
    ("demur doctor", "whether all is well"),
)
_ABOUT_AGENT = {
    CONFIG_NAME: "the settings",
    "policy.yaml": "what an agent may do: guards decide, and a few rules to make yours",
    "policy.test.yaml": "what the rules must conclude, case by case",
}
_NEXT_AGENT = (
    ("python -c \"import demur; print(demur.open_enforcer().prompt('Hi').allowed)\"", "ask it"),
    ("demur explain last", "why it was decided so"),
    ("demur policy test policy.yaml policy.test.yaml", "after each change of a rule"),
    ("demur doctor", "whether all is well"),
)


class Template(NamedTuple):
    """A file to make: its place in the folder, and what goes into it."""

    path: str
    text: str


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="where; here if absent"
    )
    parser.add_argument(
        "--agent",
        action="store_true",
        help="begin with the policy for agents: guards decide, and large amounts wait for a person",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="write over files that are there; a store is always kept as it is",
    )


def run(args: argparse.Namespace) -> int:
    """Make the folder, and say what to do next."""
    folder: Path = args.folder
    made = list(agent_templates() if args.agent else templates())
    there = [template.path for template in made if (folder / template.path).exists()]
    if there and not args.force:
        raise InputError(
            f"there already: {', '.join(there)}",
            where=str(folder),
            help="name another folder, or --force writes over these files (never over the store)",
        )
    for template in made:
        path = folder / template.path
        _make_folder(path.parent)
        write(path, template.text)
    new = _make_store(folder)
    print("\n".join(_told(folder, Paint(), new_store=new, agent=args.agent)))
    named = os.environ.get("DEMUR_CONFIG")
    if named:
        print(f"note: DEMUR_CONFIG names {named}: commands go by that, not by this folder")
    return 0


def templates() -> Iterator[Template]:
    """Yield the files of a working folder."""
    return _walk(files("demur.cli") / "templates", "")


def agent_templates() -> Iterator[Template]:
    """Yield the files of a working folder for agents: the same settings, and their own policy."""
    usual = {template.path: template for template in templates()}
    yield usual[CONFIG_NAME]
    yield Template("policy.yaml", agent_policy())
    yield from _walk(files("demur.cli") / "templates_agent", "")


def _walk(folder: Traversable, before: str) -> Iterator[Template]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        path = f"{before}{item.name}"
        if item.is_dir():
            yield from _walk(item, f"{path}/")
        else:
            yield Template(path, item.read_text(encoding="utf-8"))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"cannot make the folder: {reason}", where=str(folder)) from error


def _make_store(folder: Path) -> bool:
    """Make the store that the settings name; return whether it was not there before."""
    config = read_settings(folder / CONFIG_NAME)
    new = not Path(config.store).exists()
    make_private(config)
    store = open_configured_store(config)
    assert store is not None
    store.close()
    return new


def _told(folder: Path, paint: Paint, *, new_store: bool, agent: bool) -> Iterator[str]:
    store = f"the store{', empty' if new_store else '; kept as it was'}"
    about = {**(_ABOUT_AGENT if agent else _ABOUT), "demur.db": store}
    after = _NEXT_AGENT if agent else _NEXT
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

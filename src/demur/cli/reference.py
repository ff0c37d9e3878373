"""The reference page of the command line, from the parser itself.

It is built from the parser's arguments, because argparse's help text differs with the terminal and
with the version of Python.
"""

import argparse
import textwrap
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from demur.cli.commands import COMMANDS, build_parser
from demur.codes.export.markup import code, fence, link, slug, table

__all__ = ["STATUS_MEANING", "generated_files", "reference"]

STATUS_MEANING: Mapping[int, str] = {
    0: "The command succeeded; if it decides, the action may run.",
    1: "An input cannot be used; standard error names it.",
    2: "The command line is wrong.",
    3: "Refused.",
    4: "Context, an approval or accepted limits are needed first.",
    5: "The action may run within limits.",
    6: "demur could not judge the action, so it must not run.",
}

_GLUE = "\N{NO-BREAK SPACE}"
_WIDTH = 88
_MAY_BE_ABSENT = ("?", "*")

_INTRO = """\
<!-- Generated from the command line's parser; do not edit. -->

# Command line

Every command takes `-h` and then shows its arguments. Colour goes to terminals alone;
`NO_COLOR` switches it off everywhere and `FORCE_COLOR` on. `DEMUR_REGISTRY` names the files of
organisations' codes to read besides the core, separated as in `PATH`."""


class _Leaf(NamedTuple):
    """A command without subcommands, and the words that call it."""

    words: str
    parser: argparse.ArgumentParser


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the page."""
    yield "docs/reference/cli.md", reference()


def reference() -> str:
    """Return the page: every command with its arguments, and what the exit statuses mean."""
    statuses = ((str(status), meaning) for status, meaning in STATUS_MEANING.items())
    names = [f"demur {command.name}" for command in COMMANDS]
    commands = zip(names, (command.summary for command in COMMANDS), strict=True)
    rows = ((link(name, f"#{slug(name)}"), summary) for name, summary in commands)
    leaves = sorted(_leaves("demur", build_parser()), key=lambda leaf: names.index(leaf.words))
    parts = (
        _INTRO,
        "## Commands",
        table(("Command", "What it does"), rows),
        "## Exit statuses",
        "Commands with other or narrower statuses list them below.",
        table(("Status", "Meaning"), statuses),
        *map(_command, leaves),
    )
    return "\n\n".join(parts) + "\n"


def _leaves(words: str, parser: argparse.ArgumentParser) -> Iterator[_Leaf]:
    groups = [action for action in _actions(parser) if isinstance(action.choices, dict)]
    if not groups:
        yield _Leaf(words, parser)
    for group in groups:
        for name, child in dict(group.choices or ()).items():
            yield from _leaves(f"{words} {name}", child)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the visible arguments: all but `--help` and suppressed ones."""
    actions = parser._actions  # noqa: SLF001 - argparse has no public list of them
    shown = (action for action in actions if action.help != argparse.SUPPRESS)
    return [action for action in shown if "--help" not in action.option_strings]


def _command(leaf: _Leaf) -> str:
    actions = _actions(leaf.parser)
    parts = [f"## {leaf.words}", _sentence(leaf.parser.description or ""), fence(_synopsis(leaf))]
    if actions:
        rows = (_row(action, leaf.parser) for action in actions)
        parts.append(table(("Argument", "Meaning", "Default"), rows))
    if leaf.parser.epilog:
        parts.append(_sentence(leaf.parser.epilog))
    return "\n\n".join(parts)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _synopsis(leaf: _Leaf) -> list[str]:
    """Return the synopsis, in lines that break only between arguments."""
    words = (text.replace(" ", _GLUE) for text in (leaf.words, *_usages(leaf.parser)))
    lines = textwrap.wrap(
        " ".join(words),
        width=_WIDTH,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in lines]


def _usages(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the usage of each argument: options first, alternatives together."""
    alternatives = {
        id(action): group
        for group in parser._mutually_exclusive_groups  # noqa: SLF001 - no public list either
        for action in group._group_actions  # noqa: SLF001 - as above
    }
    for action in sorted(_actions(parser), key=_is_positional):
        group = alternatives.get(id(action))
        if group is None:
            yield _usage(action)
        elif group._group_actions[0] is action:  # noqa: SLF001 - as above
            choice = " | ".join(map(_bare, group._group_actions))  # noqa: SLF001 - as above
            yield f"({choice})" if group.required else f"[{choice}]"


def _is_positional(action: argparse.Action) -> bool:
    return not action.option_strings


def _is_repeatable(action: argparse.Action) -> bool:
    return isinstance(action, argparse._AppendAction)  # noqa: SLF001 - it has no public name


def _value(action: argparse.Action) -> str:
    """Return the name of an argument's value, or an empty string if it takes none."""
    if action.nargs == 0:
        return ""
    return action.metavar if isinstance(action.metavar, str) else action.dest.upper()


def _bare(action: argparse.Action) -> str:
    return " ".join(filter(None, (*action.option_strings[:1], _value(action))))


def _usage(action: argparse.Action) -> str:
    text = _bare(action)
    if _is_positional(action):
        forms = {"?": f"[{text}]", "*": f"[{text}...]", "+": f"{text}..."}
        return forms.get(str(action.nargs), text)
    return (text if action.required else f"[{text}]") + "..." * _is_repeatable(action)


def _row(action: argparse.Action, parser: argparse.ArgumentParser) -> tuple[str, str, str]:
    names = action.option_strings or [_value(action)]
    meaning = (action.help or "") % {**vars(action), "prog": parser.prog}
    if action.choices and not action.metavar:
        choices = ", ".join(code(str(choice)) for choice in action.choices)
        meaning = f"{meaning}; one of {choices}" if meaning else f"one of {choices}"
    return ", ".join(map(code, names)), meaning, _default(action)


def _default(action: argparse.Action) -> str:
    # `action.required` of positional arguments differs between versions of Python.
    if action.nargs not in _MAY_BE_ABSENT if _is_positional(action) else action.required:
        return "required"
    return code(str(action.default)) if action.default else ""

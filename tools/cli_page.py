"""The reference pages of the command line, from the parser itself: a list, and a page a group.

They are built from the parser's arguments, because argparse's help text differs with the terminal
and with the version of Python. `cli_examples.md` holds the examples that each page begins with; the
tests of the documentation run them.
"""

import argparse
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from demur.cli.main import COMMANDS, GROUPS, SECTIONS, CliCommand, build_parser
from demur.codes.markup import (
    heading_slug,
    markdown_code,
    markdown_fence,
    markdown_link,
    markdown_table,
)

STATUS_MEANING: Mapping[int, str] = {
    0: "The command succeeded; if it decides, the action may run.",
    1: "An input cannot be used, or a check failed; standard error names it.",
    2: "The command line is wrong, or there is nothing to check.",
    3: "Refused.",
    4: "Context, an approval or accepted limits are needed first.",
    5: "The action may run within limits.",
    6: "demur could not judge the action, so it must not run.",
    130: "Interrupted with Ctrl-C.",
    141: "The reader closed the pipe.",
}

_NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
_WIDTH = 88
_OPTIONAL_NARGS = ("?", "*")

_NOTICE = "<!-- Generated from the command line's parser; do not edit. -->"
_EXAMPLES = Path(__file__).with_name("cli_examples.md")
_INTRO = f"""\
{_NOTICE}

# Command line

Every command takes `-h` and then shows its arguments, its exit statuses and an example. A mistyped
command, option or value is answered with the likely one; upper and lower case of values do not
matter. [`demur completion`](cli/start.md#demur-completion) completes them in bash, zsh and fish.

Settings come from `--config FILE`, from `DEMUR_CONFIG`, or from the nearest `demur.toml` in this
folder or above it, up to your home folder or the root of the file system. Times like `--since` are
a day, a time, `today`, `yesterday`, or how long ago: `30m`, `2h`, `3d`, `1w`.

Colour goes to terminals alone; `NO_COLOR` switches it off everywhere and `FORCE_COLOR` on.
`DEMUR_REGISTRY` names the files of organisations' codes to read besides the core, separated as in
`PATH`."""


class _LeafCommand(NamedTuple):
    """A command without subcommands, and the words that call it."""

    words: str
    parser: argparse.ArgumentParser


class _Page(NamedTuple):
    """A page of commands: its file without the ending, its title, and its commands."""

    name: str
    title: str
    commands: tuple[CliCommand, ...]


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the list, and of the page of each group."""
    yield "docs/reference/cli.md", render_list()
    for name, content in render_pages().items():
        yield f"docs/reference/cli/{name}.md", content


def render_list() -> str:
    """Return the page that lists all commands and what the exit statuses mean."""
    statuses = ((str(status), meaning) for status, meaning in STATUS_MEANING.items())
    parts = (
        _INTRO,
        "## Commands",
        *_list_commands(),
        "## Exit statuses",
        markdown_table(("Status", "Meaning"), statuses),
        "These commands have other or narrower statuses.",
        markdown_table(("Command", "Statuses"), _list_statuses()),
    )
    return "\n\n".join(parts) + "\n"


def render_pages() -> dict[str, str]:
    """Return the page of each group by name: its examples, and each command with its arguments."""
    leaves = {leaf.words: leaf for leaf in _list_leaves("demur", build_parser())}
    examples = _read_examples()
    pages = {
        page.name: "\n\n".join(
            (
                f"{_NOTICE}\n\n# {page.title}",
                examples.pop(page.name),
                *(_render_command(leaves[f"demur {command.name}"]) for command in page.commands),
            )
        )
        + "\n"
        for page in _list_pages()
    }
    if examples:
        message = f"{_EXAMPLES.name} has examples for no page: {', '.join(examples)}"
        raise ValueError(message)
    return pages


def _list_pages() -> Iterator[_Page]:
    """Yield a page for each group of commands, and one for the other commands of each section."""
    for title, words in SECTIONS.items():
        single = tuple(command for command in COMMANDS if command.name in words)
        if len(single) > 1:
            yield _Page(heading_slug(title), title, single)
        elif single:
            yield _Page(single[0].name, single[0].name.title(), single)
        for group in (word for word in words if word in GROUPS):
            chosen = tuple(c for c in COMMANDS if c.name.split()[0] == group)
            yield _Page(group, f"demur {group}", chosen)


def _read_examples() -> dict[str, str]:
    """Return the examples of each page; a page without any is an error when it is rendered."""
    parts = re.split(r"^# ([a-z-]+)\n", _EXAMPLES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def _list_commands() -> Iterator[str]:
    """Yield the heading and the table of each section of commands."""
    for title, words in SECTIONS.items():
        chosen = [command for command in COMMANDS if command.name.split()[0] in words]
        rows = ((_link_command(command), command.summary) for command in chosen)
        yield f"### {title}"
        yield markdown_table(("Command", "What it does"), rows)


def _link_command(command: CliCommand) -> str:
    name = f"demur {command.name}"
    page = next(page.name for page in _list_pages() if command in page.commands)
    return markdown_link(name, f"cli/{page}.md#{heading_slug(name)}")


def _list_statuses() -> Iterator[tuple[str, str]]:
    """Yield each command whose statuses differ from the common ones, and their meaning."""
    common = {0: "done", 1: "an error", 2: "usage"}
    for command in COMMANDS:
        if dict(command.statuses) != common:
            meanings = (f"{status} {text}" for status, text in command.statuses.items())
            yield _link_command(command), "; ".join(meanings)


def _list_leaves(words: str, parser: argparse.ArgumentParser) -> Iterator[_LeafCommand]:
    groups = [action for action in _shown_actions(parser) if isinstance(action.choices, dict)]
    if not groups:
        yield _LeafCommand(words, parser)
    for group in groups:
        for name, child in dict(group.choices or ()).items():
            yield from _list_leaves(f"{words} {name}", child)


def _shown_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the visible arguments: all but `--help` and suppressed ones."""
    actions = parser._actions  # noqa: SLF001 - argparse has no public list of them
    shown = (action for action in actions if action.help != argparse.SUPPRESS)
    return [action for action in shown if "--help" not in action.option_strings]


def _render_command(leaf: _LeafCommand) -> str:
    actions = _shown_actions(leaf.parser)
    parts = [
        f"## {leaf.words}",
        _to_sentence(leaf.parser.description or ""),
        markdown_fence(_render_synopsis(leaf)),
    ]
    if actions:
        rows = (_argument_row(action, leaf.parser) for action in actions)
        parts.append(markdown_table(("Argument", "Meaning", "Default"), rows))
    if leaf.parser.epilog:
        parts.append(_to_sentence(leaf.parser.epilog))
    example = getattr(leaf.parser, "example", "")
    if example:
        parts += ["Example:", markdown_fence([example])]
    return "\n\n".join(parts)


def _to_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _render_synopsis(leaf: _LeafCommand) -> list[str]:
    """Return the synopsis, in lines that break only between arguments."""
    words = (
        text.replace(" ", _NO_BREAK_SPACE) for text in (leaf.words, *_list_usages(leaf.parser))
    )
    lines = textwrap.wrap(
        " ".join(words),
        width=_WIDTH,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_NO_BREAK_SPACE, " ") for line in lines]


def _list_usages(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the usage of each argument: options first, alternatives together."""
    alternatives = {
        id(action): group
        for group in parser._mutually_exclusive_groups  # noqa: SLF001 - no public list either
        for action in group._group_actions  # noqa: SLF001 - as above
    }
    for action in sorted(_shown_actions(parser), key=_is_positional):
        group = alternatives.get(id(action))
        if group is None:
            yield _render_usage(action)
        elif group._group_actions[0] is action:  # noqa: SLF001 - as above
            choice = " | ".join(map(_bare_usage, group._group_actions))  # noqa: SLF001 - as above
            yield f"({choice})" if group.required else f"[{choice}]"


def _is_positional(action: argparse.Action) -> bool:
    return not action.option_strings


def _value_name(action: argparse.Action) -> str:
    """Return the name of an argument's value, or an empty string if it takes none."""
    if action.nargs == 0:
        return ""
    return action.metavar if isinstance(action.metavar, str) else action.dest.upper()


def _bare_usage(action: argparse.Action) -> str:
    return " ".join(filter(None, (*action.option_strings[:1], _value_name(action))))


def _render_usage(action: argparse.Action) -> str:
    text = _bare_usage(action)
    if _is_positional(action):
        forms = {"?": f"[{text}]", "*": f"[{text}...]", "+": f"{text}..."}
        return forms.get(str(action.nargs), text)
    repeatable = isinstance(action, argparse._AppendAction)  # noqa: SLF001 - it has no public name
    return (text if action.required else f"[{text}]") + "..." * repeatable


def _argument_row(action: argparse.Action, parser: argparse.ArgumentParser) -> tuple[str, str, str]:
    names = action.option_strings or [_value_name(action)]
    meaning = (action.help or "") % {**vars(action), "prog": parser.prog}
    if action.choices and not action.metavar:
        choices = ", ".join(markdown_code(str(choice)) for choice in action.choices)
        meaning = f"{meaning}; one of {choices}" if meaning else f"one of {choices}"
    return ", ".join(map(markdown_code, names)), meaning, _describe_default(action)


def _describe_default(action: argparse.Action) -> str:
    # `action.required` of positional arguments differs between versions of Python.
    if action.nargs not in _OPTIONAL_NARGS if _is_positional(action) else action.required:
        return "required"
    return markdown_code(str(action.default)) if action.default else ""

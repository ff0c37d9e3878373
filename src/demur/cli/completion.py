"""`demur completion`: complete commands, options and values in bash, zsh and fish.

The script of a shell is short and asks `demur` itself for the words that fit. It never needs to be
printed again after an upgrade, and knows the codes of organisations.
"""

import argparse
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from textwrap import dedent

from demur.cli.main import COMMANDS, Arguments, CommandParser, find_command
from demur.cli.workspace import configured_registries
from demur.codes.loading import default_registry

_SCRIPTS = {
    "bash": """\
        _demur() {
            local IFS=$'\\n'
            COMPREPLY=($("${COMP_WORDS[0]}" completion bash words \\
                "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
        }
        complete -o default -F _demur demur
        """,
    "zsh": """\
        #compdef demur
        _demur() {
            local -a found
            found=(${(f)"$($words[1] completion zsh words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
            if (( $#found )); then
                compadd -M 'm:{a-z}={A-Z}' -- $found
            else
                _files
            fi
        }
        if [ "$funcstack[1]" = "_demur" ]; then
            _demur "$@"
        else
            compdef _demur demur
        fi
        """,
    "fish": """\
        function __demur_complete
            set -l words (commandline -opc)
            set -l current (commandline -ct)
            set -l found ($words[1] completion fish words $words[2..-1] "$current" 2>/dev/null)
            if test (count $found) -gt 0
                printf '%s\\n' $found
            else
                __fish_complete_path "$current"
            end
        end
        complete -c demur -f -a '(__demur_complete)'
        """,
}
_CODE_VALUES = ("CODE", "CODE[:SURFACE]", "CODE|FILE")


def configure_completion(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog("bash, for this terminal only: source <(demur completion bash)")
    add("shell", "the shell", choices=sorted(_SCRIPTS))
    add(
        "words [WORD...]",
        "`words`, and the words typed so far: print the words that fit",
        nargs=argparse.REMAINDER,
    )


def run_completion(args: Namespace) -> int:
    """Print the script of a shell, or the words that fit what was typed."""
    if args.words:
        print("\n".join(list_candidates(args.words[1:] or [""])))
    else:
        print(dedent(_SCRIPTS[args.shell]), end="")
    return 0


def list_candidates(words: Sequence[str]) -> list[str]:
    """Return the words that may stand in place of the last one; none where a file may stand."""
    *before, current = words
    command = find_command(before)
    if command is None:
        names = (one.name.split() for one in COMMANDS)
        here = [name[len(before)] for name in names if name[: len(before)] == before]
        candidates = sorted(set(here))
    else:
        rest = before[len(command.name.split()) :]
        candidates = list(_list_arguments(command.build_parser(), rest, current))
    return [word for word in candidates if word.casefold().startswith(current.casefold())]


def _list_arguments(parser: CommandParser, before: Sequence[str], current: str) -> Iterable[str]:
    option = parser.find_option(before[-1]) if before else None
    if option is not None and option.nargs != 0:
        return _list_values([option])
    if current.startswith("-"):
        return parser.option_names
    return _list_values(parser.positionals)


def _list_values(actions: Iterable[argparse.Action]) -> Iterator[str]:
    for action in actions:
        if action.choices is not None:
            yield from map(str, action.choices)
        elif action.metavar in _CODE_VALUES:
            yield from (entry.code for entry in default_registry(*configured_registries()))

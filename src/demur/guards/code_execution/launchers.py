"""Interpreters: find the code that a call would run, and its language."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from demur.guards.code_execution.call import Arg, ProgramCall
from demur.guards.code_execution.interpreters import find_perl_code, find_python_code
from demur.guards.code_execution.rules import read_table
from demur.guards.static.source_text import word_set


class CodeLanguage(StrEnum):
    """The languages that have a reader; `other` is read by its calls alone."""

    SHELL = "shell"
    PYTHON = "python"
    POWERSHELL = "powershell"
    CMD = "cmd"
    OTHER = "other"


class CodeToRun(NamedTuple):
    """Code that a call would run: an argument, or a file, or (without either) its input.

    `operands` are the words that a shell passes to it as `$0`, `$1` and so on.
    """

    language: CodeLanguage
    text: Arg | None = None
    file: Arg | None = None
    operands: tuple[Arg, ...] = ()


SHELLS = word_set("sh bash zsh dash ksh ash fish csh tcsh mksh rbash lksh yash xonsh")
_POWERSHELLS = frozenset({"powershell", "pwsh"})
_OTHER: dict[str, list[str]] = read_table("launchers.json")["evaluators"]
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?w?|pypy3?|py|ipython3?")
_SHELL_VALUED = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})


def find_code(call: ProgramCall) -> Iterator[CodeToRun]:
    """Yield the code that `call` would run."""
    verb = call.verb
    if verb in SHELLS:
        yield from _shell_code(call)
    elif verb in {"source", "."}:
        if call.args:
            yield CodeToRun(CodeLanguage.SHELL, file=call.args[0], operands=call.args)
    elif verb in _POWERSHELLS:
        yield from _powershell_code(call)
    elif verb == "cmd":
        yield from _cmd_code(call)
    elif verb[:2] in {"py", "ip"} and _PYTHON.fullmatch(verb):
        yield from (CodeToRun(CodeLanguage.PYTHON, *code) for code in find_python_code(call))
    elif verb == "perl":
        yield from (CodeToRun(CodeLanguage.OTHER, *code) for code in find_perl_code(call))
    elif verb in _OTHER:
        yield from _flag_code(call, _OTHER[verb], CodeLanguage.OTHER)
    elif verb in _AWKS and call.args:
        yield from _awk_code(call)


def _shell_code(call: ProgramCall) -> Iterator[CodeToRun]:
    """Yield the code of `sh -c TEXT NAME ARGS`, `sh FILE ARGS`, or `sh -s ARGS` with its input.

    Options may be bundled (`-euo pipefail -c`), and those behind `-c` come before the text.
    """
    args = call.args
    index, letters = 0, ""
    while index < len(args):
        text = args[index].text
        if text in {"--", "-"}:
            index += 1
            break
        if not text.startswith(("-", "+")):
            break
        index += 1
        if text in {"--help", "--version", "-n"}:
            return
        if text in _SHELL_VALUED or (not text.startswith("--") and set(text[1:]) & {"o", "O"}):
            index += 1
        if not text.startswith("--"):
            letters += text[1:] if text[0] == "-" else ""
    rest = args[index:]
    if "c" in letters:
        yield from (CodeToRun(CodeLanguage.SHELL, arg, operands=rest[1:]) for arg in rest[:1])
    elif "s" in letters or not rest:
        yield CodeToRun(CodeLanguage.SHELL, operands=(call.name, *rest))
    else:
        yield CodeToRun(CodeLanguage.SHELL, file=rest[0], operands=rest)


def _flag_code(call: ProgramCall, flags: list[str], language: CodeLanguage) -> Iterator[CodeToRun]:
    """Code behind an option, else the first operand's file, else the input."""
    args = call.args
    found = False
    skipped = False
    for index, arg in enumerate(args):
        if skipped or (language is CodeLanguage.OTHER and arg.text in _LOADING.difference(flags)):
            skipped = not skipped  # an option with a value that is loaded, not run
        elif arg.text in flags and index + 1 < len(args):
            found = True
            yield CodeToRun(language, args[index + 1])
        elif len(arg.text) > 2 and arg.text[:2] in flags and arg.text[1] in "ce":
            found = True
            yield CodeToRun(language, arg._replace(text=arg.text[2:], offset=None))
            return
        elif arg.text in {"-m", "--version", "-V", "--help", "-h"}:
            return
        elif not found and not arg.text.startswith("-"):
            yield CodeToRun(language, file=arg)
            return
    if not found:
        yield CodeToRun(language)


_LOADING = frozenset({"-r", "--require", "--import", "--loader", "-I", "-l"})


def _awk_code(call: ProgramCall) -> Iterator[CodeToRun]:
    """`awk PROGRAM`: the first operand."""
    args = iter(call.args)
    for arg in args:
        if arg.text in {"-f", "--file"}:
            yield from (CodeToRun(CodeLanguage.OTHER, file=file) for file in args)
            return
        if arg.text in {"-F", "-v", "--assign"}:
            next(args, None)
        elif not arg.text.startswith("-"):
            yield CodeToRun(CodeLanguage.OTHER, arg)
            return


def _powershell_code(call: ProgramCall) -> Iterator[CodeToRun]:
    """`-Command TEXT...`, `-EncodedCommand TEXT` (left to the reader), `-File FILE`, or words."""
    args, language = call.args, CodeLanguage.POWERSHELL
    index = 0
    while index < len(args):
        option = args[index].text.lower().lstrip("-/")
        if not args[index].text.startswith(("-", "/")):
            break
        if option and "command".startswith(option):
            index += 1
            break
        if option and ("encodedcommand".startswith(option) or option == "ec"):
            yield from (CodeToRun(language, arg) for arg in args[index + 1 : index + 2])
            return
        if option and "file".startswith(option):
            yield from (CodeToRun(language, file=arg) for arg in args[index + 1 : index + 2])
            return
        index += 2 if option.startswith(("ex", "ep", "w", "v", "out", "in")) else 1
    rest = args[index:]
    code = rest[0] if rest else None
    if code and len(rest) > 1:
        text = " ".join(arg.text for arg in rest)
        code = code._replace(text=text, end=rest[-1].end, offset=None)
    yield CodeToRun(language, code)


def _cmd_code(call: ProgramCall) -> Iterator[CodeToRun]:
    """`cmd /c TEXT...`."""
    for index, arg in enumerate(call.args):
        if arg.text.lower()[:2] in {"/c", "/k", "/r"}:
            rest = call.args[index + 1 :]
            glued = arg.text[2:]
            text = " ".join([*([glued] if glued else []), *(item.text for item in rest)])
            whole = arg._replace(text=text, end=call.args[-1].end, offset=None)
            yield CodeToRun(CodeLanguage.CMD, rest[0] if len(rest) == 1 and not glued else whole)
            return

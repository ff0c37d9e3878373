"""Programs that run code: which of their arguments, files or input is the code."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from demur.guards.code_execution.call import ProgramCall
from demur.guards.code_execution.names import split_names
from demur.guards.code_execution.value import CommandArg

__all__ = ["SHELLS", "InterpretedCode", "CodeLanguage", "find_code"]


class CodeLanguage(StrEnum):
    """The languages that have a reader; `other` is read by its calls alone."""

    SHELL = "shell"
    PYTHON = "python"
    POWERSHELL = "powershell"
    CMD = "cmd"
    OTHER = "other"


class InterpretedCode(NamedTuple):
    """Code that a call would run: an argument, or a file, or (without either) its input."""

    language: CodeLanguage
    text: CommandArg | None = None
    file: CommandArg | None = None


SHELLS = frozenset(split_names("sh bash zsh dash ksh ash fish csh tcsh mksh rbash lksh yash xonsh"))
_POWERSHELLS = frozenset({"powershell", "pwsh"})
_OTHER = {
    "perl": ("-e", "-E", "-ne", "-pe", "-le", "-lne", "-Mre=eval"),
    "ruby": ("-e", "-ne", "-pe", "-rsocket"),
    "node": ("-e", "--eval", "-p", "--print", "-pe"),
    "nodejs": ("-e", "--eval", "-p", "-pe"),
    "bun": ("-e", "--eval"),
    "deno": ("eval",),
    "php": ("-r",),
    "lua": ("-e",),
    "luajit": ("-e",),
    "osascript": ("-e",),
    "rscript": ("-e",),
    "tclsh": (),
    "expect": ("-c",),
    "emacs": ("--eval", "-eval"),
    "gdb": ("-ex",),
    "groovy": ("-e",),
    "julia": ("-e",),
}
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?w?|pypy3?|py|ipython3?")
_SHELL_VALUED = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})


def find_code(call: ProgramCall) -> Iterator[InterpretedCode]:
    """Yield the code that `call` would run."""
    verb = call.verb
    if verb in SHELLS:
        yield from _shell_code(call)
    elif verb in {"source", "."}:
        if call.args:
            yield InterpretedCode(CodeLanguage.SHELL, file=call.args[0])
    elif verb in _POWERSHELLS:
        yield from _powershell_code(call)
    elif verb == "cmd":
        yield from _cmd_code(call)
    elif verb[:2] in {"py", "ip"} and _PYTHON.fullmatch(verb):
        yield from _evaluated_code(call, ("-c",), CodeLanguage.PYTHON)
    elif verb in _OTHER:
        yield from _evaluated_code(call, _OTHER[verb], CodeLanguage.OTHER)
    elif verb in _AWKS and call.args:
        yield from _awk_code(call)


def _shell_code(call: ProgramCall) -> Iterator[InterpretedCode]:
    """Yield the code of `sh -c TEXT`, `sh FILE`, or `sh` with its input."""
    args = call.args
    at = 0
    while at < len(args):
        text = args[at].text
        if text in _SHELL_VALUED:
            at += 2
            continue
        if text == "--" or not text.startswith(("-", "+")) or text == "-":
            break
        if not text.startswith("--") and "c" in text[1:]:
            yield from (InterpretedCode(CodeLanguage.SHELL, arg) for arg in args[at + 1 : at + 2])
            return
        if not text.startswith("--") and "s" in text[1:]:
            yield InterpretedCode(CodeLanguage.SHELL)
            return
        if text in {"--help", "--version", "-n", "-h"}:
            return
        at += 1
    operands = [arg for arg in args[at:] if arg.text not in {"--", "-"}]
    yield (
        InterpretedCode(CodeLanguage.SHELL, file=operands[0])
        if operands
        else InterpretedCode(CodeLanguage.SHELL)
    )


def _evaluated_code(
    call: ProgramCall, flags: tuple[str, ...], language: CodeLanguage
) -> Iterator[InterpretedCode]:
    """Code behind an option, else the first operand's file, else the input."""
    args = call.args
    found = False
    for at, arg in enumerate(args):
        if arg.text in flags and at + 1 < len(args):
            found = True
            yield InterpretedCode(language, args[at + 1])
            if language is CodeLanguage.PYTHON:
                return
        elif len(arg.text) > 2 and arg.text[:2] in flags and arg.text[1] in "ce":
            found = True
            yield InterpretedCode(language, arg._replace(text=arg.text[2:], offset=None))
            return
        elif arg.text in {"-m", "--version", "-V", "--help", "-h"}:
            return
        elif not found and not arg.text.startswith("-"):
            yield InterpretedCode(language, file=arg)
            return
    if not found:
        yield InterpretedCode(language)


def _awk_code(call: ProgramCall) -> Iterator[InterpretedCode]:
    """`awk PROGRAM`: the first operand."""
    skip = False
    for arg in call.args:
        if skip:
            skip = False
        elif arg.text in {"-F", "-v", "-f"}:
            skip = True
        elif not arg.text.startswith("-"):
            yield InterpretedCode(CodeLanguage.OTHER, arg)
            return


def _powershell_code(call: ProgramCall) -> Iterator[InterpretedCode]:
    """`-Command TEXT...`, `-EncodedCommand TEXT` (left to the reader), `-File FILE`, or words."""
    args = call.args
    at = 0
    while at < len(args):
        option = args[at].text.lower().lstrip("-/")
        if not args[at].text.startswith(("-", "/")):
            break
        if option and "command".startswith(option):
            at += 1
            break
        if option and ("encodedcommand".startswith(option) or option == "ec"):
            yield from (
                InterpretedCode(CodeLanguage.POWERSHELL, arg) for arg in args[at + 1 : at + 2]
            )
            return
        if option and "file".startswith(option):
            yield from (
                InterpretedCode(CodeLanguage.POWERSHELL, file=arg) for arg in args[at + 1 : at + 2]
            )
            return
        at += 2 if option.startswith(("ex", "ep", "w", "v", "out", "in")) else 1
    rest = args[at:]
    if len(rest) == 1:
        yield InterpretedCode(CodeLanguage.POWERSHELL, rest[0])
    elif rest:
        text = " ".join(arg.text for arg in rest)
        yield InterpretedCode(
            CodeLanguage.POWERSHELL, rest[0]._replace(text=text, end=rest[-1].end, offset=None)
        )
    else:
        yield InterpretedCode(CodeLanguage.POWERSHELL)


def _cmd_code(call: ProgramCall) -> Iterator[InterpretedCode]:
    """`cmd /c TEXT...`."""
    for at, arg in enumerate(call.args):
        if arg.text.lower()[:2] in {"/c", "/k", "/r"}:
            rest = call.args[at + 1 :]
            glued = arg.text[2:]
            text = " ".join([*([glued] if glued else []), *(item.text for item in rest)])
            whole = len(rest) == 1 and not glued
            yield InterpretedCode(
                CodeLanguage.CMD,
                rest[0] if whole else arg._replace(text=text, end=call.args[-1].end, offset=None),
            )
            return

"""Programs that run code: which of their arguments, files or input is the code."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from demur.guards.code_execution.call import Call
from demur.guards.code_execution.names import names
from demur.guards.code_execution.value import Arg

__all__ = ["SHELLS", "Code", "Tongue", "codes"]


class Tongue(StrEnum):
    """The languages that have a reader; `other` is read by its calls alone."""

    SHELL = "shell"
    PYTHON = "python"
    POWERSHELL = "powershell"
    CMD = "cmd"
    OTHER = "other"


class Code(NamedTuple):
    """Code that a call would run: an argument, or a file, or (without either) its input."""

    tongue: Tongue
    text: Arg | None = None
    file: Arg | None = None


SHELLS = frozenset(names("sh bash zsh dash ksh ash fish csh tcsh mksh rbash lksh yash xonsh"))
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


def codes(call: Call) -> Iterator[Code]:
    """Yield the code that `call` would run."""
    verb = call.verb
    if verb in SHELLS:
        yield from _shell(call)
    elif verb in {"source", "."}:
        if call.args:
            yield Code(Tongue.SHELL, file=call.args[0])
    elif verb in _POWERSHELLS:
        yield from _powershell(call)
    elif verb == "cmd":
        yield from _cmd(call)
    elif verb[:2] in {"py", "ip"} and _PYTHON.fullmatch(verb):
        yield from _evaluated(call, ("-c",), Tongue.PYTHON)
    elif verb in _OTHER:
        yield from _evaluated(call, _OTHER[verb], Tongue.OTHER)
    elif verb in _AWKS and call.args:
        yield from _program(call)


def _shell(call: Call) -> Iterator[Code]:
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
            yield from (Code(Tongue.SHELL, arg) for arg in args[at + 1 : at + 2])
            return
        if not text.startswith("--") and "s" in text[1:]:
            yield Code(Tongue.SHELL)
            return
        if text in {"--help", "--version", "-n", "-h"}:
            return
        at += 1
    operands = [arg for arg in args[at:] if arg.text not in {"--", "-"}]
    yield Code(Tongue.SHELL, file=operands[0]) if operands else Code(Tongue.SHELL)


def _evaluated(call: Call, flags: tuple[str, ...], tongue: Tongue) -> Iterator[Code]:
    """Code behind an option, else the first operand's file, else the input."""
    args = call.args
    found = False
    for at, arg in enumerate(args):
        if arg.text in flags and at + 1 < len(args):
            found = True
            yield Code(tongue, args[at + 1])
            if tongue is Tongue.PYTHON:
                return
        elif len(arg.text) > 2 and arg.text[:2] in flags and arg.text[1] in "ce":
            found = True
            yield Code(tongue, arg._replace(text=arg.text[2:], offset=None))
            return
        elif arg.text in {"-m", "--version", "-V", "--help", "-h"}:
            return
        elif not found and not arg.text.startswith("-"):
            yield Code(tongue, file=arg)
            return
    if not found:
        yield Code(tongue)


def _program(call: Call) -> Iterator[Code]:
    """`awk PROGRAM`: the first operand."""
    skip = False
    for arg in call.args:
        if skip:
            skip = False
        elif arg.text in {"-F", "-v", "-f"}:
            skip = True
        elif not arg.text.startswith("-"):
            yield Code(Tongue.OTHER, arg)
            return


def _powershell(call: Call) -> Iterator[Code]:
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
            yield from (Code(Tongue.POWERSHELL, arg) for arg in args[at + 1 : at + 2])
            return
        if option and "file".startswith(option):
            yield from (Code(Tongue.POWERSHELL, file=arg) for arg in args[at + 1 : at + 2])
            return
        at += 2 if option.startswith(("ex", "ep", "w", "v", "out", "in")) else 1
    rest = args[at:]
    if len(rest) == 1:
        yield Code(Tongue.POWERSHELL, rest[0])
    elif rest:
        text = " ".join(arg.text for arg in rest)
        yield Code(Tongue.POWERSHELL, rest[0]._replace(text=text, end=rest[-1].end, offset=None))
    else:
        yield Code(Tongue.POWERSHELL)


def _cmd(call: Call) -> Iterator[Code]:
    """`cmd /c TEXT...`."""
    for at, arg in enumerate(call.args):
        if arg.text.lower()[:2] in {"/c", "/k", "/r"}:
            rest = call.args[at + 1 :]
            glued = arg.text[2:]
            text = " ".join([*([glued] if glued else []), *(item.text for item in rest)])
            whole = len(rest) == 1 and not glued
            yield Code(
                Tongue.CMD,
                rest[0] if whole else arg._replace(text=text, end=call.args[-1].end, offset=None),
            )
            return

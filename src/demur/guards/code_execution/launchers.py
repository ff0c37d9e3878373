"""Programs that run code or start other programs: find the code and the inner commands.

`sudo`, `env`, `timeout`, `xargs`, `find -exec`, `ssh host`, `docker exec` and similar programs are
not judged here: the command inside them is taken out and judged as if it stood alone.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import takewhile
from typing import NamedTuple

from demur.guards.code_execution.call import (
    Arg,
    ProgramCall,
    asks_person,
    find_targets,
    parse_options,
)
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
    """Code that a call would run: an argument, or a file, or (without either) its input."""

    language: CodeLanguage
    text: Arg | None = None
    file: Arg | None = None


SHELLS = word_set("sh bash zsh dash ksh ash fish csh tcsh mksh rbash lksh yash xonsh")
_POWERSHELLS = frozenset({"powershell", "pwsh"})
_TABLES = read_table("launchers.json")
_OTHER: dict[str, list[str]] = _TABLES["evaluators"]
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
            yield CodeToRun(CodeLanguage.SHELL, file=call.args[0])
    elif verb in _POWERSHELLS:
        yield from _powershell_code(call)
    elif verb == "cmd":
        yield from _cmd_code(call)
    elif verb[:2] in {"py", "ip"} and _PYTHON.fullmatch(verb):
        yield from _flag_code(call, ["-c"], CodeLanguage.PYTHON)
    elif verb in _OTHER:
        yield from _flag_code(call, _OTHER[verb], CodeLanguage.OTHER)
    elif verb in _AWKS and call.args:
        yield from _awk_code(call)


def _shell_code(call: ProgramCall) -> Iterator[CodeToRun]:
    """Yield the code of `sh -c TEXT`, `sh FILE`, or `sh` with its input."""
    args = call.args
    index = 0
    while index < len(args):
        text = args[index].text
        if text in _SHELL_VALUED:
            index += 2
            continue
        if text == "--" or not text.startswith(("-", "+")) or text == "-":
            break
        if not text.startswith("--") and "c" in text[1:]:
            yield from (CodeToRun(CodeLanguage.SHELL, arg) for arg in args[index + 1 : index + 2])
            return
        if not text.startswith("--") and "s" in text[1:]:
            yield CodeToRun(CodeLanguage.SHELL)
            return
        if text in {"--help", "--version", "-n", "-h"}:
            return
        index += 1
    operands = [arg for arg in args[index:] if arg.text not in {"--", "-"}]
    yield CodeToRun(CodeLanguage.SHELL, file=operands[0] if operands else None)


def _flag_code(call: ProgramCall, flags: list[str], language: CodeLanguage) -> Iterator[CodeToRun]:
    """Code behind an option, else the first operand's file, else the input."""
    args = call.args
    found = False
    for index, arg in enumerate(args):
        if arg.text in flags and index + 1 < len(args):
            found = True
            yield CodeToRun(language, args[index + 1])
            if language is CodeLanguage.PYTHON:
                return
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


def _awk_code(call: ProgramCall) -> Iterator[CodeToRun]:
    """`awk PROGRAM`: the first operand."""
    args = iter(call.args)
    for arg in args:
        if arg.text in {"-F", "-v", "-f"}:
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


class InnerCommand(NamedTuple):
    """A command inside another: its words, or one text that a shell will read (`script`).

    `in_container`: it runs in a container, so it does not destroy data of this machine.
    """

    args: tuple[Arg, ...]
    via: str
    script: bool = False
    in_container: bool = False


class _CommandPrefix(NamedTuple):
    """How to find the command behind a program's own options."""

    valued: frozenset[str] = frozenset()
    skip: int = 0
    assignments: bool = False
    script: bool = False


def unwrap_command(call: ProgramCall) -> Iterator[InnerCommand]:
    """Yield the commands that `call` would start."""
    opener = _OPENERS.get(call.verb)
    if opener is not None:
        yield from opener(call)
    elif (prefix := _PREFIXES.get(call.verb)) is not None:
        yield from _command_behind(call, prefix)


def _command_behind(call: ProgramCall, prefix: _CommandPrefix) -> Iterator[InnerCommand]:
    if rest := _skip_options(call.args, prefix):
        yield InnerCommand(rest, call.verb, prefix.script)


def _skip_options(args: tuple[Arg, ...], prefix: _CommandPrefix) -> tuple[Arg, ...]:
    """Return the words behind the options, assignments and operands that come first."""
    index, skipped = 0, 0
    while index < len(args):
        text = args[index].text
        if text == "--":
            index += 1
            if skipped >= prefix.skip:
                break
        elif text.startswith("-") and len(text) > 1:
            index += 2 if text in prefix.valued else 1
        elif prefix.assignments and "=" in text.partition("/")[0]:
            index += 1
        elif skipped < prefix.skip:
            skipped += 1
            index += 1
        else:
            break
    return args[index:]


_PREFIXES = {
    program: _CommandPrefix(**{**options, "valued": frozenset(options.get("valued", ()))})
    for program, options in _TABLES["prefixes"].items()
}


def _env_command(call: ProgramCall) -> Iterator[InnerCommand]:
    valued = word_set("-u --unset -C --chdir -S --split-string")
    options = parse_options(call.args, valued)
    if text := options.values.get("-S") or options.values.get("--split-string"):
        yield InnerCommand((text,), "env", script=True)
    yield from _command_behind(call, _CommandPrefix(valued, assignments=True))


def _option_opener(*names: str) -> Callable[[ProgramCall], Iterator[InnerCommand]]:
    """Return the function for programs that take a whole command as an option's value."""

    def opener(call: ProgramCall) -> Iterator[InnerCommand]:
        options = parse_options(call.args, frozenset(names))
        for name in names:
            if text := options.values.get(name):
                yield InnerCommand((text,), call.verb, script=True)

    return opener


def _flock_command(call: ProgramCall) -> Iterator[InnerCommand]:
    yield from _option_opener("-c", "--command")(call)
    if not call.has_arg("-c", "--command"):
        yield from _command_behind(call, _CommandPrefix(word_set("-w -E"), skip=1))


def _xargs_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    valued = "-I -n -P -L -d -s -E -a --max-args --max-procs --delimiter --replace --arg-file"
    rest = _skip_options(call.args, _CommandPrefix(word_set(valued)))
    options = parse_options(call.args[: len(call.args) - len(rest)], word_set(valued))
    if options.has_any("-p", "--interactive"):
        return  # the answer comes from the terminal, so nothing but a person can give it
    hole = options.values.get("-I")
    items = tuple(
        call.name._replace(text=text, known=call.stdin.known, taints=call.stdin.taints, offset=None)
        for text in call.stdin.text.split()[:20]
    ) or (call.name._replace(text="$input", known=False, taints=call.stdin.taints, offset=None),)
    if hole is None:
        yield InnerCommand((*rest, *items), "xargs")
        return
    for item in items:
        yield InnerCommand(tuple(_fill_hole(arg, hole.text, item) for arg in rest), "xargs")


def _fill_hole(arg: Arg, hole: str, item: Arg) -> Arg:
    if hole not in arg.text:
        return arg
    text = arg.text.replace(hole, item.text)
    return arg._replace(text=text, known=item.known, taints=arg.taints | item.taints, offset=None)


_MAX_ROOTS = 8
_EXEC_ENDS = frozenset({";", "+", "\\;", "\\"})
_ASKING = re.compile(r"-ok(?:dir)?")
_NEVER = re.compile(r"(?!)")


_EXECS = word_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")


def _find_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    """`-exec CMD ;` with the search targets in place of `{}`."""
    args = call.args
    found = find_targets(call)
    asks = asks_person(call, _ASKING, _NEVER)
    for index, arg in enumerate(args):
        if arg.text not in _EXECS or (asks and arg.text.startswith("-ok")):
            continue
        inner = list(takewhile(lambda word: word.text not in _EXEC_ENDS, args[index + 1 :]))
        for item in found[:_MAX_ROOTS]:
            yield InnerCommand(tuple(_fill_hole(word, "{}", item) for word in inner), call.verb)


def _container_command(call: ProgramCall) -> Iterator[InnerCommand]:
    """`docker run IMAGE CMD`, `docker exec CONTAINER CMD`, `docker compose exec SERVICE CMD`."""
    texts = call.texts
    for index, text in enumerate(texts[:4]):
        if text in {"run", "exec"}:
            rest = _skip_options(call.args[index + 1 :], _CommandPrefix(_CONTAINER_VALUED, skip=1))
            if rest:
                yield InnerCommand(rest, call.verb, in_container=True)
            return


_CONTAINER_VALUED = frozenset(_TABLES["container_options"])


def _cluster_command(call: ProgramCall) -> Iterator[InnerCommand]:
    """`kubectl exec POD -- CMD`, `kubectl run ... -- CMD`, `lxc exec NAME -- CMD`."""
    start = call.texts.index("--") + 1 if call.has_arg("--") else len(call.args)
    if call.has_arg("exec", "run", "debug") and (rest := call.args[start:]):
        yield InnerCommand(rest, call.verb, in_container=True)


def _adb_command(call: ProgramCall) -> Iterator[InnerCommand]:
    if call.has_arg("shell") and (rest := call.args[call.texts.index("shell") + 1 :]):
        yield InnerCommand(rest, call.verb, script=True, in_container=True)


def _git_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    """Commands that git starts: `bisect run`, `submodule foreach`, `rebase --exec`, `!` aliases."""
    texts = call.texts
    if texts[:2] == ["bisect", "run"]:
        yield InnerCommand(call.args[2:], "git")
    elif texts[:2] == ["submodule", "foreach"]:
        words = tuple(arg for arg in call.args[2:] if arg.text != "--recursive")
        yield InnerCommand(words, "git", script=True)
    for index, arg in enumerate(call.args[:-1]):
        following = call.args[index + 1]
        if arg.text in {"--exec", "-x"} and "rebase" in texts:
            yield InnerCommand((following,), "git", script=True)
        elif arg.text == "-c" and "=!" in following.text:
            script = following.text.partition("=!")[2]
            yield InnerCommand((following._replace(text=script, offset=None),), "git", script=True)


def _tar_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    for arg in call.args:
        for opening in ("--checkpoint-action=exec=", "--to-command=", "--use-compress-program="):
            if arg.text.startswith(opening):
                script = arg.text.removeprefix(opening)
                yield InnerCommand((arg._replace(text=script, offset=None),), "tar", script=True)


def _editor_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    """`vim -c ':!CMD'`."""
    for arg in call.args:
        command = arg.text.lstrip(":")
        if command.startswith("!") and len(command) > 1:
            script = arg._replace(text=command[1:], offset=None)
            yield InnerCommand((script,), call.verb, script=True)


def _trap_command(call: ProgramCall) -> Iterator[InnerCommand]:
    if len(call.args) > 1 and not call.args[0].text.startswith("-"):
        yield InnerCommand(call.args[:1], "trap", script=True)


_OPENERS: dict[str, Callable[[ProgramCall], Iterator[InnerCommand]]] = {
    "env": _env_command,
    "su": _option_opener("-c", "--command", "--session-command"),
    **dict.fromkeys(("runuser", "script", "vagrant"), _option_opener("-c", "--command")),
    "nix-shell": _option_opener("--run", "--command"),
    "flock": _flock_command,
    **dict.fromkeys(("xargs", "gxargs"), _xargs_commands),
    "adb": _adb_command,
    "trap": _trap_command,
    "git": _git_commands,
    **dict.fromkeys(("find", "bfs", "fd", "fdfind", "gfind"), _find_commands),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose"), _container_command),
    **dict.fromkeys(
        ("kubectl", "oc", "lxc", "incus", "crictl", "k3s", "multipass"), _cluster_command
    ),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar_commands),
    **dict.fromkeys(("vi", "vim", "nvim", "ex"), _editor_commands),
}

"""Programs that run code or start other programs: find the code and the inner commands.

`sudo`, `env`, `timeout`, `xargs`, `find -exec`, `ssh host`, `docker exec` and similar programs are
not judged here: the command inside them is taken out and judged as if it stood alone.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from demur.guards.code_execution.call import (
    Arg,
    ProgramCall,
    find_targets,
    parse_options,
)
from demur.guards.static.source_text import split_names


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
        yield from _evaluated_code(call, ("-c",), CodeLanguage.PYTHON)
    elif verb in _OTHER:
        yield from _evaluated_code(call, _OTHER[verb], CodeLanguage.OTHER)
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
    yield (
        CodeToRun(CodeLanguage.SHELL, file=operands[0])
        if operands
        else CodeToRun(CodeLanguage.SHELL)
    )


def _evaluated_code(
    call: ProgramCall, flags: tuple[str, ...], language: CodeLanguage
) -> Iterator[CodeToRun]:
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
    skip = False
    for arg in call.args:
        if skip:
            skip = False
        elif arg.text in {"-F", "-v", "-f"}:
            skip = True
        elif not arg.text.startswith("-"):
            yield CodeToRun(CodeLanguage.OTHER, arg)
            return


def _powershell_code(call: ProgramCall) -> Iterator[CodeToRun]:
    """`-Command TEXT...`, `-EncodedCommand TEXT` (left to the reader), `-File FILE`, or words."""
    args = call.args
    index = 0
    while index < len(args):
        option = args[index].text.lower().lstrip("-/")
        if not args[index].text.startswith(("-", "/")):
            break
        if option and "command".startswith(option):
            index += 1
            break
        if option and ("encodedcommand".startswith(option) or option == "ec"):
            yield from (
                CodeToRun(CodeLanguage.POWERSHELL, arg) for arg in args[index + 1 : index + 2]
            )
            return
        if option and "file".startswith(option):
            yield from (
                CodeToRun(CodeLanguage.POWERSHELL, file=arg) for arg in args[index + 1 : index + 2]
            )
            return
        index += 2 if option.startswith(("ex", "ep", "w", "v", "out", "in")) else 1
    rest = args[index:]
    if len(rest) == 1:
        yield CodeToRun(CodeLanguage.POWERSHELL, rest[0])
    elif rest:
        text = " ".join(arg.text for arg in rest)
        yield CodeToRun(
            CodeLanguage.POWERSHELL, rest[0]._replace(text=text, end=rest[-1].end, offset=None)
        )
    else:
        yield CodeToRun(CodeLanguage.POWERSHELL)


def _cmd_code(call: ProgramCall) -> Iterator[CodeToRun]:
    """`cmd /c TEXT...`."""
    for index, arg in enumerate(call.args):
        if arg.text.lower()[:2] in {"/c", "/k", "/r"}:
            rest = call.args[index + 1 :]
            glued = arg.text[2:]
            text = " ".join([*([glued] if glued else []), *(item.text for item in rest)])
            whole = len(rest) == 1 and not glued
            yield CodeToRun(
                CodeLanguage.CMD,
                rest[0] if whole else arg._replace(text=text, end=call.args[-1].end, offset=None),
            )
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
    rest = _skip_options(call.args, prefix)
    if rest:
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


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PREFIXES: dict[str, _CommandPrefix] = {
    **dict.fromkeys(
        split_names(
            "builtin busybox command dbus-run-session entr fakeroot firejail nohup rlwrap setpriv"
            " setsid start-process systemd-inhibit torify torsocks toybox unbuffer"
        ),
        _CommandPrefix(),
    ),
    **dict.fromkeys(
        split_names("arch-chroot chroot chrt gosu su-exec taskset"), _CommandPrefix(skip=1)
    ),
    **dict.fromkeys(
        ("timeout", "gtimeout"),
        _CommandPrefix(_word_set("-k -s --kill-after --signal"), skip=1),
    ),
    **dict.fromkeys(("proxychains", "proxychains4"), _CommandPrefix(_word_set("-f"))),
    "sudo": _CommandPrefix(
        _word_set("-u -g -h -p -C -D -r -t -T -U --user --group --host --chdir"), assignments=True
    ),
    "doas": _CommandPrefix(_word_set("-u -C -a")),
    "run0": _CommandPrefix(_word_set("-u --user")),
    "pkexec": _CommandPrefix(_word_set("--user")),
    "time": _CommandPrefix(_word_set("-f -o")),
    "nice": _CommandPrefix(_word_set("-n --adjustment")),
    "ionice": _CommandPrefix(_word_set("-c -n -p --class --classdata")),
    "stdbuf": _CommandPrefix(_word_set("-i -o -e")),
    "strace": _CommandPrefix(_word_set("-e -o -p -s -u -E -P")),
    "ltrace": _CommandPrefix(_word_set("-e -o -p -s -u")),
    "exec": _CommandPrefix(_word_set("-a")),
    "unshare": _CommandPrefix(_word_set("-S -G -R -w")),
    "caffeinate": _CommandPrefix(_word_set("-t -w")),
    "xvfb-run": _CommandPrefix(_word_set("-s -n -e -f")),
    "systemd-run": _CommandPrefix(
        _word_set("-p -u --unit --on-calendar --on-active -M -H --slice")
    ),
    "nsenter": _CommandPrefix(_word_set("-t --target -S -G")),
    "screen": _CommandPrefix(_word_set("-S -t -c -X")),
    "sshpass": _CommandPrefix(_word_set("-p -f -d")),
    "watch": _CommandPrefix(_word_set("-n --interval"), script=True),
    "parallel": _CommandPrefix(_word_set("-j -a -I --jobs"), script=True),
    "ssh": _CommandPrefix(
        _word_set("-i -p -l -o -F -J -L -R -D -b -c -E -e -I -m -O -Q -S -W -w -B"),
        skip=1,
        script=True,
    ),
    "eval": _CommandPrefix(script=True),
    "hyperfine": _CommandPrefix(_word_set("-r -w -m -M -n --runs --warmup"), script=True),
}


def _env_command(call: ProgramCall) -> Iterator[InnerCommand]:
    valued = _word_set("-u --unset -C --chdir -S --split-string")
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
        yield from _command_behind(call, _CommandPrefix(_word_set("-w -E"), skip=1))


def _xargs_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    valued = "-I -n -P -L -d -s -E -a --max-args --max-procs --delimiter --replace --arg-file"
    rest = _skip_options(call.args, _CommandPrefix(_word_set(valued)))
    options = parse_options(call.args[: len(call.args) - len(rest)], _word_set(valued))
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


def _find_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    """`-exec CMD ;` with the search targets in place of `{}`."""
    args = call.args
    found = find_targets(call)
    for index, arg in enumerate(args):
        if arg.text not in {"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec"}:
            continue
        inner: list[Arg] = []
        for word in args[index + 1 :]:
            if word.text in {";", "+", "\\;"}:
                break
            inner.append(word)
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


_CONTAINER_VALUED = _word_set(
    "-e --env -v --volume -p --publish -w --workdir -u --user --name --network --net --entrypoint"
    " -m --memory --mount -l --label --hostname -h --cpus --restart "
    "--platform --add-host --env-file"
    " --ulimit --device --gpus --cap-add --security-opt --pid --ipc --tmpfs --shm-size --index"
)


def _cluster_command(call: ProgramCall) -> Iterator[InnerCommand]:
    """`kubectl exec POD -- CMD`, `kubectl run ... -- CMD`, `lxc exec NAME -- CMD`."""
    texts = call.texts
    if "--" in texts and ("exec" in texts or "run" in texts or "debug" in texts):
        rest = call.args[texts.index("--") + 1 :]
        if rest:
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
        yield InnerCommand(
            tuple(a for a in call.args[2:] if a.text != "--recursive"), "git", script=True
        )
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
            yield InnerCommand(
                (arg._replace(text=command[1:], offset=None),), call.verb, script=True
            )


def _trap_command(call: ProgramCall) -> Iterator[InnerCommand]:
    if len(call.args) > 1 and not call.args[0].text.startswith("-"):
        yield InnerCommand(call.args[:1], "trap", script=True)


_OPENERS: dict[str, Callable[[ProgramCall], Iterator[InnerCommand]]] = {
    "env": _env_command,
    "su": _option_opener("-c", "--command", "--session-command"),
    "runuser": _option_opener("-c", "--command"),
    "script": _option_opener("-c", "--command"),
    "vagrant": _option_opener("-c", "--command"),
    "nix-shell": _option_opener("--run", "--command"),
    "flock": _flock_command,
    "xargs": _xargs_commands,
    "gxargs": _xargs_commands,
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

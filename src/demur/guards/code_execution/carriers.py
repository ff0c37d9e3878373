"""Programs, options and variables that run other programs: find the commands inside them.

`sudo`, `xargs`, `find -exec`, `ssh host`, `tar --to-command`, `git -c core.pager=...`, `PAGER=...`
and similar carriers are not judged here: the command inside them is taken out and judged as if it
stood alone. `rules/carriers.json` lists them, with commands that test each row. If a program is in
no row, words behind it that read like a dangerous command are a guess, so a person decides.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain, islice, takewhile
from typing import NamedTuple

from demur.guards.code_execution.call import (
    EMPTY,
    Arg,
    ProgramCall,
    Value,
    asks_person,
    find_targets,
    join_values,
    parse_options,
    program_name,
)
from demur.guards.code_execution.carried_values import (
    CarriedValue,
    carrier_rows,
    compile_lines,
    find_carried,
    find_option_values,
    read_carriers,
)
from demur.guards.code_execution.launchers import SHELLS, CodeLanguage
from demur.guards.code_execution.paths import canonical_path
from demur.guards.static.source_text import word_set


class InnerCommand(NamedTuple):
    """A command inside another: its words, or one text that an interpreter reads (`script`).

    `in_container`: it runs in a container, so it does not destroy data of this machine.
    `guessed`: nothing says that the program runs it.
    """

    args: tuple[Arg, ...]
    via: str
    script: bool = False
    in_container: bool = False
    language: CodeLanguage = CodeLanguage.SHELL
    guessed: bool = False


class _CommandPrefix(NamedTuple):
    """How to find the command behind a program's own options."""

    valued: frozenset[str] = frozenset()
    skip: int = 0
    assignments: bool = False
    script: bool = False


def unwrap_command(
    call: ProgramCall, files: Mapping[str, Value] | None = None
) -> Iterator[InnerCommand]:
    """Yield the commands that `call` would start; `files` are those that were written before."""
    found = False
    if files and (name := _argument_file(call)):
        call = call._replace(stdin=files.get(canonical_path(name.text, call.cwd), call.stdin))
    if files and call.verb in _LINE_RUNNERS:
        written = (files.get(canonical_path(arg.text, call.cwd), EMPTY) for arg in call.args)
        call = call._replace(stdin=join_values([call.stdin, *written]))
    for inner in chain(_carried_commands(call, files or {}), _behind_options(call)):
        found = True
        yield inner
    if not found and call.args and call.verb not in _OPENERS:
        yield from _guess_commands(call)


def _argument_file(call: ProgramCall) -> Arg | None:
    """Return the file from which `xargs` and `parallel` take their items, if any."""
    if call.verb not in {"xargs", "gxargs", "parallel"}:
        return None
    values = (
        rest[:1] for name in ("-a", "--arg-file") for rest in find_option_values(call.args, name)
    )
    return next(chain.from_iterable(values), None)


def _behind_options(call: ProgramCall) -> Iterator[InnerCommand]:
    """Yield the commands that stand as words behind a program's own options."""
    if opener := _OPENERS.get(call.verb):
        yield from opener(call)
    if (prefix := _prefixes().get(call.verb)) and (rest := _skip_options(call.args, prefix)):
        yield InnerCommand(rest, call.verb, prefix.script)
    for row in carrier_rows("subcommands").get(call.verb, ()):
        words = row["words"].split()
        texts = call.texts
        starts = (i for i, text in enumerate(texts) if text == words[0])
        start = next((i for i in starts if texts[i : i + len(words)] == words), None)
        if start is not None:
            prefix = _CommandPrefix(
                word_set(row.get("valued", "")), row.get("skip", 0), assignments=True
            )
            rest = _skip_options(call.args[start + len(words) :], prefix)
            if rest:
                yield InnerCommand(
                    rest, call.verb, row.get("script", False), row.get("container", False)
                )


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


@cache
def _prefixes() -> dict[str, _CommandPrefix]:
    return {
        program: _CommandPrefix(**{**options, "valued": frozenset(options.get("valued", ()))})
        for program, options in read_carriers()["prefixes"].items()
    }


def _carried_commands(call: ProgramCall, files: Mapping[str, Value]) -> Iterator[InnerCommand]:
    for carried in find_carried(call, files):
        runs, args, via = carried
        if not args:
            continue
        value = args[0]
        if runs in _LANGUAGES:
            yield InnerCommand((value,), via, script=True, language=_LANGUAGES[runs])
        elif runs == "words":
            yield InnerCommand(args, via, script=len(args) == 1 and " " in value.text)
        elif runs in _EMBEDDED:
            for match in _EMBEDDED[runs]().finditer(value.text):
                for text in filter(None, match.groups()):
                    yield InnerCommand((value._replace(text=text, offset=None),), via, script=True)
        else:
            yield from _started_files(carried, call, files)


def _started_files(
    carried: CarriedValue, call: ProgramCall, files: Mapping[str, Value]
) -> Iterator[InnerCommand]:
    """Yield the program that a value names, and what a folder that it names holds."""
    runs, (value, *_), via = carried
    texts = [value.text]
    if runs == "commas":
        texts = value.text.split(",")
    elif runs.startswith("options "):
        texts = [runs.split()[1], *value.text.split()]
    elif program_name(value.text) in SHELLS:
        return
    yield InnerCommand(tuple(value._replace(text=text, offset=None) for text in texts), via)
    folder = f"{canonical_path(value.text, call.cwd)}/"
    # A tuple: the command that is judged may write another file.
    for path in tuple(path for path in files if path.startswith(folder)):
        yield InnerCommand((value._replace(text=path, offset=None),), via)


_LANGUAGES = {
    "shell": CodeLanguage.SHELL,
    "python": CodeLanguage.PYTHON,
    "other": CodeLanguage.OTHER,
}
# Bounded, so that the time is linear in the text.
_SUBSCRIPT = re.compile(r"\w\[\$\((.{1,600})\)\]|\w\[`([^`]{1,600})`\]", re.DOTALL)
_CONFIG_VALUE = re.compile(r"[\w.-]{1,80}'?='?!?([^'=][^']{0,600})")
_SUBSTITUTION = re.compile(r"\$\((.{1,600})\)|`([^`]{1,600})`", re.DOTALL)
_EMBEDDED: dict[str, Callable[[], re.Pattern[str]]] = {
    "prompt": lambda: _SUBSTITUTION,
    "subscript": lambda: _SUBSCRIPT,
    "config": lambda: _CONFIG_VALUE,
    "make": lambda: compile_lines(carrier_rows("texts")["make"][0]["pattern"]),
}


def opens_shell(via: tuple[str, ...]) -> bool:
    """Whether a shell is started by a program that is not made to start one."""
    return not all(name in _starters() or name.partition(" ")[0] in _TERMINALS for name in via)


@cache
def _starters() -> frozenset[str]:
    starters = frozenset(
        {*_prefixes(), *carrier_rows("subcommands"), *SHELLS, *_OPENERS, *_TERMINALS}
    )
    return starters - _NO_STARTERS


_NO_STARTERS = word_set("find gfind bfs fd xargs gxargs git coproc sed gsed awk gawk mawk nawk")
_TERMINALS = word_set(
    "su runuser script vagrant nix-shell flock trap eval xterm urxvt rxvt konsole alacritty st foot"
    " gnome-terminal guix"
)


# Commands in programs that the table does not know.


def _guess_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    """Yield words and texts behind an unknown program that begin with a dangerous program."""
    if call.verb in _guess_words("never") or call.verb in SHELLS or not call.verb:
        return
    risky = _guess_words("programs")
    for index, arg in enumerate(call.args[:_MAX_GUESSES]):
        if program_name(arg.text) in risky and index + 1 < len(call.args):
            yield InnerCommand(call.args[index:], call.verb, guessed=True)
            return
        text = arg.text.rpartition("=")[2] if arg.text.startswith("-") else arg.text
        first, blank, _ = text.lstrip("!|:;@ ").partition(" ")
        if blank and program_name(first) in risky:
            whole = arg._replace(text=text.lstrip("!|:;@ "), offset=None)
            yield InnerCommand((whole,), call.verb, script=True, guessed=True)


@cache
def _guess_words(key: str) -> frozenset[str]:
    return frozenset(read_carriers()["guess"][key].split())


_MAX_GUESSES = 12


# Programs whose arguments need more than a row.


def _env_command(call: ProgramCall) -> Iterator[InnerCommand]:
    valued = word_set("-u --unset -C --chdir -S --split-string")
    options = parse_options(call.args, valued)
    if text := options.values.get("-S") or options.values.get("--split-string"):
        yield InnerCommand((text,), "env", script=True)
    if rest := _skip_options(call.args, _CommandPrefix(valued, assignments=True)):
        yield InnerCommand(rest, "env")


def _xargs_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    valued = "-I -n -P -L -d -s -E -a --max-args --max-procs --delimiter --replace --arg-file"
    rest = _skip_options(call.args, _CommandPrefix(word_set(valued)))
    options = parse_options(call.args[: len(call.args) - len(rest)], word_set(valued))
    if options.has_any("-p", "--interactive"):
        return  # the answer comes from the terminal, so nothing but a person can give it
    hole = options.values.get("-I") or options.values.get("--replace")
    if not rest:
        return  # without a command it prints
    if hole is None and options.has_any("-i", "--replace"):
        hole = call.name._replace(text="{}")
    if hole is None:
        lines = "\n" if options.has_any("-d", "--delimiter", "-0", "--null") else None
        inputs = [call]
        if options.has_any("-L", "-l", "--max-lines"):
            texts = call.stdin.text.splitlines()[:20] or [""]
            inputs = [call._replace(stdin=call.stdin._replace(text=text)) for text in texts]
        for each in inputs:
            yield InnerCommand((*rest, *_input_items(each, lines)), "xargs")
        if lines and "\n" in call.stdin.text:  # an item may have lines
            whole = call.name._replace(text=call.stdin.text, known=call.stdin.known, offset=None)
            yield InnerCommand((*rest, whole), "xargs")
        return
    for item in _input_items(call, "\n"):
        yield InnerCommand(tuple(_fill_hole(arg, hole.text, item) for arg in rest), "xargs")


def _input_items(call: ProgramCall, separator: str | None = None) -> tuple[Arg, ...]:
    """Return the items that a program reads from its input; without any known one, `$input`."""
    texts = re.split(r"[\0\n]" if separator else r"[\s\0]+", call.stdin.text)[:20]
    if separator is None and not _QUOTING.isdisjoint(call.stdin.text):
        with suppress(ValueError):  # `xargs` itself refuses a quote without a partner
            texts = shlex.split(call.stdin.text)[:20]
    texts = [text for text in texts if text] or ["$input"]
    known = call.stdin.known and texts != ["$input"]
    blank = call.name._replace(known=known, taints=call.stdin.taints, offset=None)
    return tuple(blank._replace(text=text) for text in texts)


_QUOTING = frozenset("\"'\\")


def _fill_hole(arg: Arg, hole: str, item: Arg) -> Arg:
    if hole not in arg.text:
        return arg
    text = arg.text.replace(hole, item.text)
    return arg._replace(text=text, known=item.known, taints=arg.taints | item.taints, offset=None)


def _parallel_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    """`parallel CMD ::: ITEM...`, or with items from the input."""
    valued = word_set("--jobs -I -a -j --joblog --timeout --delay -n -N -L --colsep -C")
    texts = call.texts
    cut = next((i for i, text in enumerate(texts) if text.startswith(":::")), len(texts))
    words = _skip_options(call.args[:cut], _CommandPrefix(valued))
    items = [arg for arg in call.args[cut + 1 :] if not arg.text.startswith(":::")]
    for item in items[:20] or _input_items(call, "\n"):
        filled = tuple(_fill_hole(word, "{}", item) for word in words)
        yield InnerCommand(filled if filled != words else (*words, item), call.verb, script=True)


_MAX_ROOTS = 8
_EXEC_ENDS = frozenset({";", "+", "\\;", "\\"})
_EXECS = word_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_ASKING = re.compile(r"-ok(?:dir)?")
_NEVER = re.compile(r"(?!)")


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
    prefix = _CommandPrefix(frozenset(read_carriers()["container_options"]), skip=1)
    for index, text in enumerate(call.texts[:4]):
        if text in {"run", "exec"}:
            if rest := _skip_options(call.args[index + 1 :], prefix):
                mapped = _map_mounts(call.args[: len(call.args) - len(rest)], rest)
                yield InnerCommand(mapped, call.verb, in_container=mapped == rest)
            return


_MAX_MOUNTS = 16
_MOUNT = re.compile(
    r"(?:.*\b(?:source|src)=)?([/~$][^:,]*)(?::|.*,(?:target|dst|destination)=)(/[^:,]*)"
)


def _map_mounts(options: tuple[Arg, ...], rest: tuple[Arg, ...]) -> tuple[Arg, ...]:
    """Return the command of a container with the paths of this machine that are mounted."""
    for option in ("-v", "--volume", "--mount"):
        for value in islice(find_option_values(options, option), _MAX_MOUNTS):
            match = _MOUNT.match(value[0].text[:_MAX_SCRIPT]) if value else None
            if match and (inner := match[2].rstrip("/")):
                host = match[1].replace("\\", r"\\")
                inside = re.compile(rf"(?<![\w/.]){re.escape(inner)}(?=/|\b|$)")
                if any(inside.search(arg.text) for arg in rest):
                    texts = (inside.sub(host, arg.text) for arg in rest)
                    pairs = zip(rest, texts, strict=True)
                    rest = tuple(arg._replace(text=text, offset=None) for arg, text in pairs)
    return rest


def _cluster_command(call: ProgramCall) -> Iterator[InnerCommand]:
    """`kubectl exec POD -- CMD`, `kubectl run ... -- CMD`, `lxc exec NAME -- CMD`."""
    start = call.texts.index("--") + 1 if call.has_arg("--") else len(call.args)
    if call.has_arg("exec", "run", "debug") and (rest := call.args[start:]):
        yield InnerCommand(rest, call.verb, in_container=True)


def _adb_command(call: ProgramCall) -> Iterator[InnerCommand]:
    if call.has_arg("shell") and (rest := call.args[call.texts.index("shell") + 1 :]):
        yield InnerCommand(rest, call.verb, script=True, in_container=True)


def _trap_command(call: ProgramCall) -> Iterator[InnerCommand]:
    args = tuple(arg for arg in call.args if arg.text != "--")
    if len(args) > 1 and not args[0].text.startswith("-"):
        yield InnerCommand(args[:1], "trap", script=True)


def _daemon_command(call: ProgramCall) -> Iterator[InnerCommand]:
    """`start-stop-daemon --exec PROGRAM -- ARGUMENTS`."""
    cut = call.texts.index("--") if call.has_arg("--") else len(call.args)
    options = parse_options(
        call.args[:cut], word_set("-x --exec -a --startas -n --name -p -c -u -d")
    )
    for name in ("-x", "--exec", "-a", "--startas"):
        if program := options.values.get(name):
            yield InnerCommand((program, *call.args[cut + 1 :]), call.verb)


def _operand_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    """Programs that run each of their operands as a shell text."""
    valued = word_set(
        "-n --names -w --warmup -r --runs -m --min-runs -M --max-runs -c --export-json"
    )
    for operand in parse_options(call.args, valued).operands:
        yield InnerCommand((operand,), call.verb, script=True)


_MAX_SCRIPT = 200
_LINE_RUNNERS = word_set("sed gsed")
_SED_OPTION = re.compile(r"^(?:--expression=|-[nEruszl]*e(?=.))")
_RUNS_CHANGED = re.compile(r"[;{}\n]\s*(?:\d+|\$|/[^/\n]*/)?\s*e\s*(?:$|[;}\n])")
_RUNS_INPUT = re.compile(r"(?:\d+|\$)?e|(?:.*[;\s])?s([/|,#@!]).*\1.*\1[gpiI0-9mM]*e[gpiI0-9mM]*")


def _sed_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    """`sed e`: each line of the input is run, as the commands before it leave it."""
    texts = [_SED_OPTION.sub("", text) for text in call.texts if len(text) < _MAX_SCRIPT]
    if any(_RUNS_INPUT.fullmatch(text) for text in texts):
        for item in _input_items(call, "\n"):
            yield InnerCommand((item,), call.verb, script=True)
    elif any(_RUNS_CHANGED.search(text) for text in texts):
        changed = call.name._replace(text="", known=False, offset=None)
        yield InnerCommand((changed,), call.verb, script=True)


_AWK_RUNS = re.compile(r"\bsystem\s*\(\s*[^\"\s)]|\|\s*getline|\|&?\s*(?:\"(?:ba|da|z)?sh\b|[a-z])")


def _awk_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    """Values that an awk program runs by `system(c)`: of `-v`, of the input, of the environment."""
    if not any(_AWK_RUNS.search(text) for text in call.texts):
        return
    given = (arg._replace(text=text) for arg in call.args if (text := arg.text.partition("=")[2]))
    variables = (call.name._replace(text=value.text) for _, value in call.environment)
    lines = _input_items(call, "\n") if call.stdin.text else ()
    for item in chain(given, variables, lines):
        whole = item._replace(offset=None)
        yield InnerCommand((whole,), call.verb, script=True, guessed=True)


def _config_env_commands(call: ProgramCall) -> Iterator[InnerCommand]:
    """`git --config-env=NAME=VARIABLE`: the setting is in the environment."""
    if any(text.startswith("--config-env") for text in call.texts):
        for _, value in call.environment:
            script = call.name._replace(text=value.text.lstrip("!"), offset=None)
            yield InnerCommand((script,), call.verb, script=True)


_OPENERS: dict[str, Callable[[ProgramCall], Iterator[InnerCommand]]] = {
    "env": _env_command,
    **dict.fromkeys(("xargs", "gxargs"), _xargs_commands),
    "parallel": _parallel_commands,
    "adb": _adb_command,
    "trap": _trap_command,
    "start-stop-daemon": _daemon_command,
    **dict.fromkeys(("pee", "concurrently", "hyperfine"), _operand_commands),
    **dict.fromkeys(("sed", "gsed"), _sed_commands),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk_commands),
    "git": _config_env_commands,
    **dict.fromkeys(("find", "bfs", "fd", "fdfind", "gfind"), _find_commands),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose"), _container_command),
    **dict.fromkeys(
        ("kubectl", "oc", "lxc", "incus", "crictl", "k3s", "multipass"), _cluster_command
    ),
}

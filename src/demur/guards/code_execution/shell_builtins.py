"""What the commands of the shell itself change in its state: `cd`, `read`, `set`, `declare`, ..."""

import re
from collections.abc import Callable

from demur.guards.code_execution.call import (
    EMPTY,
    UNKNOWN_PLACEHOLDER,
    Arg,
    ProgramCall,
    Value,
    parse_options,
)
from demur.guards.code_execution.outputs import predict_output
from demur.guards.code_execution.paths import HOME, canonical_path
from demur.guards.code_execution.shell_state import (
    ANY_TEXT,
    ShellState,
    Words,
    texts_of,
)
from demur.guards.static.source_text import split_names, word_set

DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly"})
# Commands of the shell that print nothing, and everyday programs that only print errors.
SILENT = DECLARING | word_set(
    "alias break cd chmod continue cp exit false kill let ln mapfile mkdir mv popd pushd read"
    " readarray return rm set shift shopt sleep source test touch trap true unalias unset wait"
    " [ [[ : ."
)
_READ_VALUED = word_set("-a -d -i -n -N -p -t -u")
_MAPFILE_VALUED = word_set("-C -c -d -n -O -s -u")
_SUBSCRIPT = re.compile(r"([A-Za-z_]\w*)\[([^\]]*)\]")
_ERREXIT = re.compile(r"([-+])[a-df-zA-Z]*e[a-zA-Z]*")


def change_folder(
    call: ProgramCall, state: ShellState, is_outside: Callable[[str], bool]
) -> ShellState | None:
    """Apply `cd`, `pushd` or `popd` to `state`; return the state if it fails.

    A `cd` that fails inside the workspace matters up to the next one; elsewhere it stays.
    """
    failed = state.copy_state()
    missed = tuple(folder for folder in state.missed_folders if is_outside(folder))
    starts = (*state.folders, *missed)
    operands = [arg for arg in call.args if not arg.text.startswith("-") or arg.text == "-"]
    if call.verb == "popd":
        folders = state.pushed_folders[-1] if state.pushed_folders else starts
        state.pushed_folders = state.pushed_folders[:-1]
    elif operands and operands[0].text == "-":
        left = tuple(value.text for value in texts_of(state.read_variable("OLDPWD")))
        folders = left or starts
    else:
        target = operands[0].text if operands else HOME
        if re.fullmatch(r"\$[a-z]\w*/+", target):
            target = "/"  # a variable that is not set
        if target.startswith("$"):
            return None
        if call.verb == "pushd":
            state.pushed_folders = (*state.pushed_folders, starts)[-8:]
        folders = tuple(dict.fromkeys(canonical_path(target, start) for start in starts))
    state.assign("OLDPWD", *(Value(folder) for folder in state.folders))
    state.folders, state.missed_folders, state.after_missed = folders, (), False
    failed.missed_folders, failed.after_missed = missed, True
    return failed


def _declare(call: ProgramCall, state: ShellState) -> None:
    """`export`, `declare` and their like: names, `name=value`, and attributes."""
    options = parse_options(call.args)
    for arg in options.operands:
        name, equals, text = arg.text.partition("=")
        append = name.endswith("+")
        name = name.removesuffix("+")
        if call.verb == "export" or options.has_any("-x"):
            state.exported |= {name}
        if options.has_any("-n") and call.verb != "export" and equals:
            state.references[name] = text
            continue
        scoped = call.verb in {"local", "declare", "typeset"} and not options.has_any("-g")
        if state.local_names is not None and scoped:
            state.local_names |= {name}
        for option, change in (("-l", str.lower), ("-u", str.upper)):
            if options.has_any(option):
                state.cases[name] = change
        if equals:
            _assign_declared(name, arg._replace(text=text).value, state, append=append)


def _assign_declared(name: str, value: Value, state: ShellState, *, append: bool) -> None:
    """Record `name=value` of a declaration; a value in brackets is a list."""
    text = value.text
    if match := _SUBSCRIPT.fullmatch(name):
        state.assign_item(match[1], match[2], (value,))
    elif text.startswith("(") and text.endswith(")"):
        words = text[1:-1].replace('"', "").replace("'", "").split()
        state.assign_readings(name, (tuple(value._replace(text=word) for word in words),))
    elif append:
        old = texts_of(state.read_variable(name))
        state.assign(name, *(value._replace(text=each.text + text) for each in old))
    else:
        state.assign(name, value)


def _define_aliases(call: ProgramCall, state: ShellState) -> None:
    for arg in call.args:
        name, equals, text = arg.text.partition("=")
        if equals:
            known = text if arg.known else UNKNOWN_PLACEHOLDER
            state.aliases[name] = tuple(dict.fromkeys((*state.aliases.get(name, ()), known)))[-8:]


def _hash_program(call: ProgramCall, state: ShellState) -> None:
    """`hash -p PATH NAME`: the name starts another program."""
    if call.args[:1] and call.args[0].text == "-p" and len(call.args) > 2:
        state.aliases[call.args[2].text] = (call.args[1].text,)


def _unset_names(call: ProgramCall, state: ShellState) -> None:
    for arg in call.args:
        if call.has_arg("-f"):
            state.functions[arg.text] = (None,)
        else:
            state.unset(arg.text)


def _read_input(call: ProgramCall, state: ShellState) -> None:
    """`read`: each line of the input is a reading."""
    options = parse_options(call.args, _READ_VALUED)
    stdin = _select_input(call, options.values.get("-u"), state)
    names = [arg.text for arg in options.operands] or ["REPLY"]
    separators = next(texts_of(state.read_variable("IFS")), Value(" ")).text
    ends = options.values.get("-d")
    lines = [stdin.text] if ends is not None else stdin.text.split("\n")
    if not stdin.known:
        lines = [UNKNOWN_PLACEHOLDER, *(line for line in lines if line)]
    rows = [
        [stdin._replace(text=field) for field in _cut_fields(line, separators, len(names))]
        for line in lines
        if line
    ] or [[EMPTY]]
    if array := options.values.get("-a"):
        every = (_cut_fields(line, separators, 0) for line in lines)
        state.assign_readings(
            array.text, tuple(tuple(stdin._replace(text=text) for text in row) for row in every)
        )
        return
    for number, name in enumerate(names):
        state.assign(name, *(_pick_field(row, number) for row in rows))


def _pick_field(row: list[Value], number: int) -> Value:
    """Return a field of a line that `read` cut; a line that is not known may have any."""
    if number < len(row):
        return row[number]
    return row[0] if row[0].text == UNKNOWN_PLACEHOLDER else EMPTY


def _select_input(call: ProgramCall, descriptor: Arg | None, state: ShellState) -> Value:
    """Return the standard input, or that of another descriptor."""
    if descriptor is None:
        return call.stdin
    return state.files.get(f"/dev/fd/{descriptor.text}", ANY_TEXT)


def _cut_fields(line: str, separators: str, count: int) -> list[str]:
    """Return the fields of a line; the last of `count` holds the rest."""
    if not separators:
        return [line]
    form = f"[{re.escape(separators)}]+"
    return (
        re.split(form, line.strip(separators), maxsplit=max(count - 1, 0) if count != 1 else 0)
        if count != 1
        else [line.strip(separators)]
    )


def _map_lines(call: ProgramCall, state: ShellState) -> None:
    """`mapfile`: an array of the lines of the input."""
    options = parse_options(call.args, _MAPFILE_VALUED)
    stdin = _select_input(call, options.values.get("-u"), state)
    name = options.operands[0].text if options.operands else "MAPFILE"
    ends = options.values.get("-d")
    between = "\n" if ends is None else ends.text[:1] or "\0"
    lines = stdin.text.removesuffix("\n").split(between)[:500] if stdin.known else ["$unknown"]
    state.assign_readings(name, (tuple(stdin._replace(text=line) for line in lines),))


def _print_to_variable(call: ProgramCall, state: ShellState) -> None:
    """`printf -v NAME FORMAT ...`."""
    if len(call.args) > 1 and call.args[0].text == "-v":
        name = call.args[1].text
        value = predict_output(call._replace(args=call.args[2:]), state)
        if match := _SUBSCRIPT.fullmatch(name):
            state.assign_item(match[1], match[2], (value,))
        else:
            state.assign(name, value)


def _set_options(call: ProgramCall, state: ShellState) -> None:
    """`set -e`, `set -o errexit`, and `set -- WORDS`, which replaces `$@`."""
    args = list(call.args)
    while args and args[0].text[:1] in {"-", "+"} and args[0].text not in {"-", "--"}:
        option = args.pop(0)
        if match := _ERREXIT.fullmatch(option.text):
            state.exits_on_error = match[1] == "-"
        if option.text.endswith("o") and args:
            name = args.pop(0).text
            if name == "errexit":
                state.exits_on_error = option.text[0] == "-"
    if args:
        words = args[1:] if args[0].text in {"-", "--"} else args
        state.positional = (tuple(arg.value for arg in words),)


def _shift_words(call: ProgramCall, state: ShellState) -> None:
    count = call.args[0].text if call.args else "1"
    shifted: list[Words | None] = [
        words and (words[int(count) :] if count.isdigit() else (ANY_TEXT,))
        for words in state.positional
    ]
    state.positional = tuple(dict.fromkeys(shifted))


def _parse_option(call: ProgramCall, state: ShellState) -> None:
    """`getopts SPEC NAME WORDS`: any of the words may be the option or its value."""
    words = [arg.value for arg in call.args[2:]]
    if not words:
        words = [value for reading in state.positional for value in reading or (ANY_TEXT,)]
    values = [value for word in words for value in (word, word._replace(text=word.text[2:]))]
    state.assign("OPTARG", *values or [ANY_TEXT])
    for name in call.args[1:2]:
        state.assign(name.text, *(word._replace(text=word.text[1:2]) for word in words))


def _set_trap(call: ProgramCall, state: ShellState) -> None:
    """`trap CODE SIGNAL`: the code runs later, with the state of then."""
    args = [arg for arg in call.args if arg.text != "--"]
    if len(args) > 1 and not args[0].text.startswith("-"):
        state.traps = (*state.traps, args[0])[-8:]


BUILTINS: dict[str, Callable[[ProgramCall, ShellState], None]] = {
    **dict.fromkeys(sorted(DECLARING), _declare),
    "alias": _define_aliases,
    "hash": _hash_program,
    "unset": _unset_names,
    "read": _read_input,
    **dict.fromkeys(("mapfile", "readarray"), _map_lines),
    "printf": _print_to_variable,
    "getopts": _parse_option,
    "set": _set_options,
    "shift": _shift_words,
    "trap": _set_trap,
}
FOLDER_CHANGES = frozenset({"cd", "pushd", "popd"})
LEAVING = frozenset(split_names("exit return break continue logout"))

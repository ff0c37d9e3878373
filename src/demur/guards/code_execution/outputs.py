"""Predict what a call writes, to its output and to files, without running it."""

import base64
import binascii
import posixpath
import re
from collections.abc import Callable, Iterator

from demur.guards.code_execution.call import (
    EMPTY,
    UNKNOWN,
    Arg,
    ProgramCall,
    Taint,
    Value,
    find_targets,
    join_values,
    parse_options,
)
from demur.guards.code_execution.effects import EffectKind, find_effects
from demur.guards.code_execution.launchers import SHELLS
from demur.guards.code_execution.shell_state import ShellState
from demur.guards.static.shell_words import decode_ansi_c
from demur.guards.static.source_text import split_names, word_set


def predict_output(call: ProgramCall, state: ShellState) -> Value:
    """Return the output of `call`; by default unknown, with the origins of its input."""
    predict = _OUTPUT_FUNCTIONS.get(call.verb)
    return predict(call, state) if predict else _unknown_output(call, state)


def _unknown_output(call: ProgramCall, state: ShellState) -> Value:
    """Return the output of an unknown program, which keeps the origins of its input.

    Without an input, a text or a written file, no text of the script is in it.
    """
    taints = call.stdin.taints - {Taint.EXTERNAL}
    carries = call.verb in _INTERPRETERS or any(
        not arg.known or " " in arg.text for arg in call.args
    )
    if call.stdin == EMPTY and not carries and not names_written(call, state):
        taints |= {Taint.EXTERNAL}
    return Value("", known=False, taints=taints)


_INTERPRETERS = frozenset(
    split_names(
        "awk gawk mawk nawk bash dash sh zsh ksh fish perl python python3 ruby node php lua tclsh"
        " jq yq bc dc expr seq basename dirname date m4 busybox eval source ."
    )
)


def _echo_output(call: ProgramCall, _: ShellState) -> Value:
    args = list(call.args)
    options = ""
    while args and re.fullmatch(r"-[neE]+", args[0].text):
        options += args.pop(0).text
    value = join_values([arg.value for arg in args], " ") if args else Value("")
    text = decode_ansi_c(value.text) if "e" in options else value.text
    return value._replace(text=text if "n" in options else f"{text}\n")


def _printf_output(call: ProgramCall, _: ShellState) -> Value:
    args = [arg for arg in call.args if arg.text != "--"]
    if not args:
        return EMPTY
    # The format is used again until no argument is left.
    slots = sum(directive != "%%" for directive in _DIRECTIVE.findall(args[0].text))
    turns = -(-max(len(args) - 1, 1) // slots) if slots else 1
    rest = iter(args[1:])
    layout = _NULL.sub(r"\\n", args[0].text * min(turns, _MAX_PRINTED))
    layout = decode_ansi_c(layout)
    text = _DIRECTIVE.sub(lambda match: _fill_directive(match[0], rest), layout)
    return join_values([arg.value for arg in args])._replace(text=text)


def _fill_directive(directive: str, rest: Iterator[Arg]) -> str:
    """Return the text for one directive of a format."""
    if directive == "%%":
        return "%"
    text = arg.text if (arg := next(rest, None)) else ""
    return decode_ansi_c(text) if directive.endswith("b") else text


_MAX_PRINTED = 100
_NULL = re.compile(r"\\0(?![0-7])")  # parts items as a line end does
_DIRECTIVE = re.compile(r"%(?:%|[-0-9.]*[a-zA-Z])")


def _cat_output(call: ProgramCall, state: ShellState) -> Value:
    options = parse_options(call.args, frozenset({"-n", "-c", "--lines", "--bytes"}))
    operands = [arg for arg in options.operands if arg.text != "-"]
    contents = [_file_content(arg, call, state) for arg in operands]
    return join_values(contents) if contents else call.stdin


def _file_content(arg: Arg, call: ProgramCall, state: ShellState) -> Value:
    """Return the content of a file that the same script wrote; else an unknown value."""
    is_input = arg.text in {"/dev/stdin", "/dev/fd/0"}
    on_disk = Value("", known=False, taints=arg.taints | {Taint.EXTERNAL})
    unknown = call.stdin if is_input else on_disk
    return state.files.get(state.resolve_path(arg.text), unknown)


def _filter_output(call: ProgramCall, state: ShellState) -> Value:
    """Return the output of a program that changes its input or the files it is given."""
    options = parse_options(call.args, frozenset({"-n", "-c", "-d", "-f", "-e", "-k"}))
    paths = (state.resolve_path(arg.text) for arg in options.operands)
    files = [state.files[path] for path in paths if path in state.files]
    whole = join_values([call.stdin, *files])
    return Value("", known=False, taints=whole.taints - {Taint.EXTERNAL})


def _download_output(_: ProgramCall, __: ShellState) -> Value:
    return Value("", known=False, taints=frozenset({Taint.DOWNLOAD}))


def _base64_output(call: ProgramCall, state: ShellState) -> Value:
    if not call.has_arg("-d", "-D", "--decode", "-di", "-r", "-rp"):
        return _cat_output(call, state)._replace(known=False)
    files = [arg for arg in parse_options(call.args).operands if arg.text != "-"]
    value = _file_content(files[0], call, state) if files else call.stdin
    return decode_value(value, decode_base64)


def _openssl_output(call: ProgramCall, state: ShellState) -> Value:
    if call.has_arg("-d"):
        decoder = decode_base64 if call.has_arg("base64", "-base64", "-a") else None
        return decode_value(call.stdin, decoder)
    return (
        _download_output(call, state) if call.has_arg("s_client") else _unknown_output(call, state)
    )


def _shell_output(call: ProgramCall, _: ShellState) -> Value:
    """Return the output of a shell; one without a script may be somebody's at the other end."""
    bare = all(arg.text.startswith("-") and "c" not in arg.text for arg in call.args)
    taints = (call.stdin.taints - {Taint.EXTERNAL}) | ({Taint.SHELL} if bare else set())
    return Value("", known=False, taints=taints)


def _xxd_output(call: ProgramCall, state: ShellState) -> Value:
    decodes = call.has_arg("-r", "-rp", "-r-p")
    return decode_value(call.stdin, decode_hex) if decodes else _unknown_output(call, state)


def _rev_output(call: ProgramCall, _: ShellState) -> Value:
    turned = "\n".join(line[::-1] for line in call.stdin.text.split("\n"))
    return call.stdin._replace(text=turned, taints=call.stdin.taints | {Taint.DECODED})


def _tr_output(call: ProgramCall, state: ShellState) -> Value:
    """Return the output of `tr`: characters swapped, as in rot13."""
    operands = [arg.text for arg in parse_options(call.args).operands]
    if len(operands) != 2 or not call.stdin.known:
        return _unknown_output(call, state)
    old, new = (_expand_ranges(text) for text in operands)
    if not old or not new:
        return _unknown_output(call, state)
    table = {ord(a): b for a, b in zip(old, new.ljust(len(old), new[-1]), strict=False)}
    changed = call.stdin.text.translate(table)
    # A long table is a cipher; a short one only normalises.
    taints = {Taint.DECODED} if len(old) > 10 else set()
    return call.stdin._replace(text=changed, taints=call.stdin.taints | taints)


def _expand_ranges(text: str) -> str:
    def stretch(match: re.Match[str]) -> str:
        return "".join(map(chr, range(ord(match[1]), min(ord(match[2]), ord(match[1]) + 128) + 1)))

    return re.sub(r"(\w)-(\w)", stretch, decode_ansi_c(text))


def _which_output(call: ProgramCall, _: ShellState) -> Value:
    """Return the file of a program; one that is named only stands for one of the system's."""
    operands = parse_options(call.args).operands
    if not operands:
        return UNKNOWN
    named = operands[0].value
    is_file = call.verb in {"realpath", "readlink"} or "/" in named.text or not named.text
    return named if is_file else named._replace(text=f"/usr/bin/{named.text}")


def _path_output(call: ProgramCall, _: ShellState) -> Value:
    """Return the folder or the last part of a path."""
    operands = parse_options(call.args).operands
    if not operands:
        return UNKNOWN
    path = operands[0].text.rstrip("/") or "/"
    text = posixpath.dirname(path) or "." if call.verb == "dirname" else posixpath.basename(path)
    if call.verb == "basename" and len(operands) > 1:
        text = text.removesuffix(operands[1].text)
    return operands[0].value._replace(text=text)


def decode_value(value: Value, decoder: Callable[[str], str | None] | None) -> Value:
    """Return `value` decoded; if there is no decoder or it fails, only the origins are kept."""
    taints = (value.taints - {Taint.EXTERNAL}) | {Taint.DECODED}
    text = decoder(value.text) if decoder and value.known else None
    return Value(text or "", known=text is not None, taints=taints)


def decode_base64(text: str) -> str | None:
    """Return the text that is encoded as base64, or None if it is not base64."""
    squeezed = "".join(text.split())
    try:
        raw = base64.b64decode(squeezed + "=" * (-len(squeezed) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return _bytes_to_text(raw)


def decode_hex(text: str) -> str | None:
    """Return the text that is encoded in hexadecimal, or None if it is not."""
    try:
        return _bytes_to_text(bytes.fromhex(text))
    except ValueError:
        return None


def _bytes_to_text(raw: bytes) -> str:
    return raw.decode("utf-16-le" if raw[1:2] == b"\0" else "utf-8", "replace")


OutputFunction = Callable[[ProgramCall, ShellState], Value]
_OUTPUT_FUNCTIONS: dict[str, OutputFunction] = {
    "echo": _echo_output,
    **dict.fromkeys(("tee", "sponge"), lambda call, _: call.stdin),
    "printf": _printf_output,
    **dict.fromkeys(("cat", "head", "tail", "pv", "bat"), _cat_output),
    **dict.fromkeys(split_names("sed awk grep cut nl sort uniq jq perl"), _filter_output),
    **dict.fromkeys(
        ("env", "printenv", "set", "export", "declare"),
        lambda call, _: Value("", known=False, taints=call.stdin.taints | {Taint.ENVIRONMENT}),
    ),
    **dict.fromkeys(
        split_names(
            "curl wget aria2c http https fetch lynx w3m nc ncat netcat socat nscurl curlie xh ftp"
            " tftp telnet finger whois dig nslookup ssh get lwp-request lwp-download"
        ),
        _download_output,
    ),
    **dict.fromkeys(("base64", "gbase64", "base32", "basenc"), _base64_output),
    **dict.fromkeys(
        ("b64decode", "uudecode"), lambda call, _: decode_value(call.stdin, decode_base64)
    ),
    **dict.fromkeys(
        split_names("gunzip zcat bunzip2 bzcat unxz xzcat zstdcat"),
        lambda call, _: decode_value(call.stdin, None),
    ),
    **dict.fromkeys(("which", "type", "realpath", "readlink"), _which_output),
    **dict.fromkeys(
        ("find", "fd", "bfs"),
        lambda call, _: (
            UNKNOWN
            if call.has_arg("-printf", "-exec", "-fprintf")
            else Value("\n".join(arg.text for arg in find_targets(call)), known=False)
        ),
    ),
    "command": lambda call, state: (
        _which_output(call, state) if call.has_arg("-v") else _unknown_output(call, state)
    ),
    **dict.fromkeys(sorted(SHELLS), _shell_output),
    **dict.fromkeys(("dirname", "basename"), _path_output),
    "openssl": _openssl_output,
    "xxd": _xxd_output,
    "rev": _rev_output,
    "tr": _tr_output,
    "mktemp": lambda call, _: Value(f"/tmp/tmp.{len(call.args)}"),  # noqa: S108 - a name
    "pwd": lambda _, state: Value(state.cwd),
}


_COPIERS = frozenset({"cp", "mv", "install", "ln"})
_FETCHERS = frozenset({"curl", "wget", "aria2c", "axel", "nscurl", "lwp-download"})
_FILE_WRITERS = _COPIERS | _FETCHERS | {"tee", "dd", "sponge", "split"}
_BY_NAME = re.compile(r"-[a-zA-Z]*O[a-zA-Z]*|--remote-name")


def written_files(
    call: ProgramCall, result: Value, state: ShellState
) -> Iterator[tuple[str, Value, bool]]:
    """Yield each file that `call` writes: its path, its content, and whether it appends."""
    for write in call.writes:
        path, content = write.target.text, result
        if call.verb == "exec" and not call.args:
            # It opens the file; commands after it write there, to a process at once.
            content = UNKNOWN if path.startswith("/dev/fd/") else EMPTY
        yield path, content, write.append
    yield from ((path, UNKNOWN, False) for path in _unknown_files(call, state))
    if call.verb not in _FILE_WRITERS:
        return
    content = result
    if call.verb in {"tee", "sponge"}:
        content = call.stdin
    elif call.verb in _COPIERS:
        operands = parse_options(call.args, _COPY_VALUED).operands
        source = state.resolve_path(operands[0].text) if operands else ""
        content = state.files.get(source, _copied_content(source, result))
        content = call.stdin if source in {"/dev/stdin", "/dev/fd/0"} else content
    elif call.verb == "split":
        operands = parse_options(call.args, word_set("-a -b -C -l -n")).operands
        prefix = operands[1].text if len(operands) > 1 else "x"
        yield f"{prefix}aa", call.stdin, False
    for effect in find_effects(call._replace(writes=(), reads=())):
        if effect.kind is EffectKind.WRITE:
            yield effect.target.text, content, effect.append and call.verb == "tee"
    if call.verb in _FETCHERS:
        yield from ((name, result, False) for name in _names_from_urls(call))


def _unknown_files(call: ProgramCall, state: ShellState) -> Iterator[str]:
    """Yield files whose content is not known after `call`: pipes, archives, edited files."""
    if call.verb in _PIPE_MAKERS:
        # A program may read a named pipe before the text is written that it gets.
        yield from (arg.text for arg in parse_options(call.args).operands)
    elif call.verb in _PACKERS:
        yield from _packed_files(call, state)
    elif _edits_files(call):
        yield from (arg.text for arg in call.args if state.resolve_path(arg.text) in state.files)


_PIPE_MAKERS = frozenset({"mkfifo", "mknod"})
_PACKERS = word_set("tar bsdtar gtar zip 7z 7za ar cpio gzip bzip2 xz zstd gunzip bunzip2 unxz")
_PACKED = re.compile(r"\.(?:gz|bz2|xz|zst)$")


def _packed_files(call: ProgramCall, state: ShellState) -> Iterator[str]:
    """Yield files that a packer makes of written ones: an archive, or what was in one."""
    operands = [arg.text for arg in call.args if not arg.text.startswith("-")]
    if names_written(call, state):
        new = (text for text in operands if state.resolve_path(text) not in state.files)
        unpacked = (_PACKED.sub("", text) for text in operands if _PACKED.search(text))
        yield from (
            *new,
            *(text for text in unpacked if state.resolve_path(text) not in state.files),
        )


def names_written(call: ProgramCall, state: ShellState) -> bool:
    """Whether an argument names a file that the script wrote."""
    return bool(state.files) and any(
        state.resolve_path(text) in state.files
        for arg in call.args
        for text in (arg.text, arg.text.partition("=")[2], arg.text.rpartition(":")[2])
        if text
    )


# Programs that change the files that they are given, and the option by which some of them do.
_EDITORS = {
    **dict.fromkeys(("ed", "ex", "vi", "vim", "patch"), ""),
    **dict.fromkeys(("sed", "gsed", "perl", "ruby"), "-[a-zA-Z]*i|--in-place"),
    **dict.fromkeys(("sort", "openssl"), "-o|--output"),
    "xxd": "-r",
}


def _edits_files(call: ProgramCall) -> bool:
    """Whether `sed -i`, `sort -o` or the like change the files that they are given."""
    option = _EDITORS.get(call.verb)
    return option is not None and any(re.match(option, text) for text in call.texts)


def _copied_content(source: str, result: Value) -> Value:
    """Return the content of a copy of a file on disk; a program's copy starts that program."""
    if _PROGRAM.fullmatch(source):
        return Value(f'exec {source} "$@"', taints=result.taints)
    return Value("", known=False, taints=result.taints | {Taint.EXTERNAL})


_PROGRAM = re.compile(r"/(?:usr/(?:local/)?)?s?bin/[\w.+-]+")
_COPY_VALUED = word_set("-t --target-directory -S --suffix -m -o -g")


def _names_from_urls(call: ProgramCall) -> Iterator[str]:
    """Yield the files that `curl -O` and `wget` name after the address."""
    if call.verb in {"curl", "nscurl"} and not any(_BY_NAME.fullmatch(text) for text in call.texts):
        return
    for text in call.texts:
        name = posixpath.basename(text.partition("?")[0])
        if name and not text.startswith("-") and ("://" in text or "." in text):
            yield name

"""What a call would write to its output, as far as that can be known without running it."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator

from demur.guards.code_execution.call import Call, options
from demur.guards.code_execution.escapes import ansi_c
from demur.guards.code_execution.scope import Scope
from demur.guards.code_execution.searches import found_by
from demur.guards.code_execution.value import EMPTY, UNKNOWN, Arg, Taint, Value, joined

__all__ = ["decoded", "output"]


def output(call: Call, scope: Scope) -> Value:
    """Return the output of `call`; by default unknown, with the origins of its input."""
    writer = _WRITERS.get(call.verb)
    if writer is not None:
        return writer(call, scope)
    return _passed(call)


def _passed(call: Call) -> Value:
    """Return the output of an unknown program, which keeps the origins of its input."""
    return Value("", known=False, taints=call.stdin.taints)


def _echo(call: Call, _: Scope) -> Value:
    args = list(call.args)
    escapes = False
    while args and re.fullmatch(r"-[neE]+", args[0].text):
        escapes = escapes or "e" in args[0].text
        del args[0]
    value = joined([arg.value for arg in args], " ") if args else Value("")
    return value._replace(text=ansi_c(value.text) if escapes else value.text)


def _printf(call: Call, _: Scope) -> Value:
    args = [arg for arg in call.args if arg.text != "--"]
    if not args:
        return EMPTY
    rest = iter(args[1:])
    text = _DIRECTIVE.sub(lambda match: _directive(match[0], rest), args[0].text)
    return joined([arg.value for arg in args])._replace(text=ansi_c(text))


def _directive(directive: str, rest: Iterator[Arg]) -> str:
    """Return the text for one directive of a format."""
    if directive == "%%":
        return "%"
    arg = next(rest, None)
    return ansi_c(arg.text) if arg is not None else ""


_DIRECTIVE = re.compile(r"%(?:%|[-0-9.]*[a-zA-Z])")


def _tee(call: Call, _: Scope) -> Value:
    return call.stdin


def _cat(call: Call, scope: Scope) -> Value:
    given = options(call.args, frozenset({"-n", "-c", "--lines", "--bytes"}))
    operands = [arg for arg in given.operands if arg.text != "-"]
    if not operands:
        return call.stdin
    return joined([_content(arg, call, scope) for arg in operands])


def _content(arg: Arg, call: Call, scope: Scope) -> Value:
    """Return the content of a file that the same script wrote; else an unknown value."""
    known = scope.files.get(scope.path(arg.text))
    if known is not None:
        return known
    if arg.text in {"/dev/stdin", "/dev/fd/0"}:
        return call.stdin
    return Value("", known=False, taints=arg.taints)


def _filter(call: Call, scope: Scope) -> Value:
    """Return the output of a program that changes its input or the files it is given."""
    given = options(call.args, frozenset({"-n", "-c", "-d", "-f", "-e", "-k"}))
    files = [
        scope.files[path] for arg in given.operands if (path := scope.path(arg.text)) in scope.files
    ]
    value = joined([call.stdin, *files]) if files else call.stdin
    return value._replace(text="", known=False)


def _environment(call: Call, _: Scope) -> Value:
    return Value("", known=False, taints=call.stdin.taints | {Taint.ENVIRONMENT})


def _download(_: Call, __: Scope) -> Value:
    return Value("", known=False, taints=frozenset({Taint.DOWNLOAD}))


def _base64(call: Call, scope: Scope) -> Value:
    if not call.has("-d", "-D", "--decode", "-di", "-r", "-rp"):
        return _cat(call, scope)._replace(known=False)
    given = [arg for arg in options(call.args).operands if arg.text != "-"]
    return decoded(_content(given[0], call, scope) if given else call.stdin, unbase64)


def _b64decode(call: Call, _: Scope) -> Value:
    return decoded(call.stdin, unbase64)


def _openssl(call: Call, scope: Scope) -> Value:
    if call.has("-d"):
        return decoded(call.stdin, unbase64 if call.has("base64", "-base64", "-a") else None)
    if call.has("s_client"):
        return _download(call, scope)
    return _passed(call)


def _xxd(call: Call, _: Scope) -> Value:
    return decoded(call.stdin, unhex) if call.has("-r", "-rp", "-r-p") else _passed(call)


def _unpacked(call: Call, _: Scope) -> Value:
    return decoded(call.stdin, None)


def _rev(call: Call, _: Scope) -> Value:
    lines = call.stdin.text.split("\n")
    turned = "\n".join(line[::-1] for line in lines)
    return call.stdin._replace(text=turned, taints=call.stdin.taints | {Taint.DECODED})


def _tr(call: Call, _: Scope) -> Value:
    """Return the output of `tr`: characters swapped, as in rot13."""
    operands = [arg.text for arg in options(call.args).operands]
    if len(operands) != 2 or not call.stdin.known:
        return _passed(call)
    old, new = (_characters(text) for text in operands)
    if not old or not new:
        return _passed(call)
    table = {ord(a): b for a, b in zip(old, new.ljust(len(old), new[-1]), strict=False)}
    changed = call.stdin.text.translate(table)
    # A long table is a cipher; a short one only normalises.
    taints = {Taint.DECODED} if len(old) > 10 else set()
    return call.stdin._replace(text=changed, taints=call.stdin.taints | taints)


def _characters(text: str) -> str:
    def stretch(match: re.Match[str]) -> str:
        return "".join(map(chr, range(ord(match[1]), min(ord(match[2]), ord(match[1]) + 128) + 1)))

    return re.sub(r"(\w)-(\w)", stretch, ansi_c(text))


def _which(call: Call, _: Scope) -> Value:
    operands = options(call.args).operands
    return operands[0].value if operands else UNKNOWN


def _mktemp(call: Call, _: Scope) -> Value:
    return Value(f"/tmp/tmp.{len(call.args)}")  # noqa: S108 - a name


def _pwd(_: Call, scope: Scope) -> Value:
    return Value(scope.cwd)


def _find(call: Call, _: Scope) -> Value:
    return Value("\n".join(arg.text for arg in found_by(call)), known=False)


def decoded(value: Value, decoder: Callable[[str], str | None] | None) -> Value:
    """Return `value` decoded; if there is no decoder or it fails, only the origins are kept."""
    taints = value.taints | {Taint.DECODED}
    text = decoder(value.text) if decoder and value.known else None
    if text is None:
        return Value("", known=False, taints=taints)
    return Value(text, known=True, taints=taints)


def unbase64(text: str) -> str | None:
    """Return the text that is encoded as base64, or None if it is not base64."""
    squeezed = "".join(text.split())
    try:
        raw = base64.b64decode(squeezed + "=" * (-len(squeezed) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return _text(raw)


def unhex(text: str) -> str | None:
    """Return the text that is encoded in hexadecimal, or None if it is not."""
    try:
        return _text(bytes.fromhex(text))
    except ValueError:
        return None


def _text(raw: bytes) -> str:
    if raw[1:2] == b"\0":
        return raw.decode("utf-16-le", "replace")
    return raw.decode("utf-8", "replace")


Writer = Callable[[Call, Scope], Value]
_WRITERS: dict[str, Writer] = {
    "echo": _echo,
    "tee": _tee,
    "sponge": _tee,
    "printf": _printf,
    **dict.fromkeys(("cat", "head", "tail", "pv", "bat", "nl"), _cat),
    **dict.fromkeys(("sed", "awk", "grep", "cut", "sort", "uniq", "jq", "perl"), _filter),
    **dict.fromkeys(("env", "printenv", "set", "export", "declare"), _environment),
    **dict.fromkeys(("curl", "wget", "aria2c", "http", "https", "fetch", "lynx", "w3m"), _download),
    **dict.fromkeys(
        ("nc", "ncat", "netcat", "socat", "nscurl", "curlie", "xh", "ftp", "tftp"), _download
    ),
    **dict.fromkeys(("base64", "gbase64", "base32", "basenc"), _base64),
    **dict.fromkeys(("b64decode", "uudecode"), _b64decode),
    **dict.fromkeys(("gunzip", "zcat", "bunzip2", "bzcat", "unxz", "xzcat", "zstdcat"), _unpacked),
    **dict.fromkeys(("which", "type", "realpath", "readlink"), _which),
    **dict.fromkeys(("find", "fd", "bfs"), _find),
    "command": lambda call, scope: _which(call, scope) if call.has("-v") else _passed(call),
    "openssl": _openssl,
    "xxd": _xxd,
    "rev": _rev,
    "tr": _tr,
    "mktemp": _mktemp,
    "pwd": _pwd,
}

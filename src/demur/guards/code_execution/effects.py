"""What a call does to files, by its verb: reads, writes, deletes, wipes. Tables, and small readers.

Only the arguments are looked at. Whether an effect matters depends on where its target lies,
which is the part of `consequences`.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from demur.guards.code_execution.call import Call, Options, options
from demur.guards.code_execution.names import names
from demur.guards.code_execution.searches import found_by
from demur.guards.code_execution.value import Arg

__all__ = ["Effect", "Kind", "effects"]


class Kind(StrEnum):
    """The kinds of effects on a file."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    WIPE = "wipe"


class Effect(NamedTuple):
    """An effect on one file or tree; `adds`: the old content stays."""

    kind: Kind
    target: Arg
    tree: bool = False
    adds: bool = False
    searched: bool = False


Reader = Callable[[Call], Iterator[Effect]]


def effects(call: Call) -> Iterator[Effect]:
    """Yield the effects of `call` on files, redirections included."""
    for write in call.writes:
        yield Effect(Kind.WRITE, write.target, adds=write.append)
    for read in call.reads:
        yield Effect(Kind.READ, read)
    reader = _READERS.get(call.verb)
    if reader is not None:
        yield from reader(call)


def _operands(valued: frozenset[str], kind: Kind, skip: int = 0) -> Reader:
    """Return a reader for programs whose operands are all files."""

    def read(call: Call) -> Iterator[Effect]:
        for operand in options(call.args, valued).operands[skip:]:
            yield Effect(kind, operand)

    return read


def _rm(call: Call) -> Iterator[Effect]:
    given = options(call.args)
    tree = given.any("-r", "-R", "--recursive", "-d", "--dir")
    for operand in given.operands:
        yield Effect(Kind.DELETE, operand, tree=tree)


def _copy(call: Call) -> Iterator[Effect]:
    """`cp`, `install`, `ln`, `mv`: all but the last are read, the last (or `-t`) is written."""
    given = options(call.args, _COPY_VALUED)
    target = given.values.get("-t") or given.values.get("--target-directory")
    sources = given.operands if target else given.operands[:-1]
    if target is None and len(given.operands) > 1:
        target = given.operands[-1]
    for source in sources:
        if call.verb == "mv":
            yield from _moved(source, target)
        elif call.verb != "ln":
            yield Effect(Kind.READ, source)
    if target is not None:
        name = sources[0].text.rstrip("/").rpartition("/")[2] if len(sources) == 1 else ""
        whole = f"{target.text.rstrip('/')}/{name}" if target.text.endswith("/") else target.text
        # The content that a copy replaces is unknown, but copying `/dev/null` empties the target.
        blank = any(source.text == "/dev/null" for source in sources)
        yield Effect(Kind.WRITE, target._replace(text=whole), adds=not blank)


def _moved(source: Arg, target: Arg | None) -> Iterator[Effect]:
    yield Effect(Kind.READ, source)
    if target is not None and target.text == "/dev/null":
        yield Effect(Kind.DELETE, source, tree=True)


_COPY_VALUED = frozenset({"-t", "--target-directory", "-S", "--suffix", "-m", "-o", "-g"})


def _tee(call: Call) -> Iterator[Effect]:
    given = options(call.args)
    for operand in given.operands:
        yield Effect(Kind.WRITE, operand, adds=given.any("-a", "--append"))


def _dd(call: Call) -> Iterator[Effect]:
    """`dd`: an input of random bytes or zeros wipes the output."""
    blank = any(
        text in {"if=/dev/zero", "if=/dev/urandom", "if=/dev/random"} for text in call.texts
    )
    for arg in call.args:
        name, _, value = arg.text.partition("=")
        if name == "of":
            outside = value.startswith("/") and not value.startswith("/tmp/")  # noqa: S108 - a name
            kind = Kind.WIPE if blank and outside else Kind.WRITE
            yield Effect(kind, arg._replace(text=value))
        elif name == "if":
            yield Effect(Kind.READ, arg._replace(text=value))


def _in_place(call: Call) -> Iterator[Effect]:
    """`sed -i` and `perl -i` write their files; without it they read them."""
    given = options(call.args, _PROGRAM_VALUED)
    inplace = any(text.startswith(("-i", "--in-place")) for text in call.texts)
    program_given = given.any("-e", "--expression", "-f", "--file")
    for operand in given.operands[0 if program_given else 1 :]:
        yield Effect(Kind.WRITE if inplace else Kind.READ, operand, adds=True)


_PROGRAM_VALUED = frozenset({"-e", "-f", "--expression", "--file", "-F", "-v", "-l"})


def _grep(call: Call) -> Iterator[Effect]:
    given = options(call.args, _GREP_VALUED)
    pattern_given = given.any("-e", "--regexp", "-f", "--file")
    for operand in given.operands[0 if pattern_given else 1 :]:
        yield Effect(Kind.READ, operand)


_GREP_VALUED = frozenset(
    {"-e", "--regexp", "-f", "--file", "-A", "-B", "-C", "-m", "--include", "--exclude", "-g", "-t"}
)


def _tar(call: Call) -> Iterator[Effect]:
    """`tar` reads its operands when it creates, and writes to `-C` when it extracts."""
    args = call.args
    if args and args[0].text[:1] not in {"-", ""} and "=" not in args[0].text:
        args = (args[0]._replace(text=f"-{args[0].text}"), *args[1:])
    given = options(args, _TAR_VALUED)
    if given.any("-c", "--create", "-r", "-u"):
        for operand in given.operands:
            yield Effect(Kind.READ, operand)
    elif given.any("-x", "--extract", "--get") and (folder := given.values.get("-C")):
        yield Effect(Kind.WRITE, folder, adds=True)


_TAR_VALUED = frozenset({"-f", "--file", "-C", "--directory", "-X", "-T", "-I", "--exclude"})


def _archive(call: Call) -> Iterator[Effect]:
    """`zip`, `7z a`, `rar a`: the first operand is the archive, the rest is read."""
    given = options(call.args, frozenset({"-P", "-p", "--password", "-b", "-x", "-i"}))
    operands = list(given.operands)
    if call.verb != "zip" and operands:
        del operands[0]
    for operand in operands[1:]:
        yield Effect(Kind.READ, operand)


def _ditto(call: Call) -> Iterator[Effect]:
    given = options(call.args)
    for operand in given.operands[:-1]:
        yield Effect(Kind.READ, operand)


def _transfer(call: Call) -> Iterator[Effect]:
    """`scp`, `rsync`: local operands before the last are read; a local last one is written."""
    given = options(call.args, _TRANSFER_VALUED)
    for operand in given.operands[:-1]:
        if not _remote(operand.text):
            yield Effect(Kind.READ, operand)
    if len(given.operands) > 1 and not _remote(given.operands[-1].text):
        last = given.operands[-1]
        yield Effect(Kind.WRITE, last, adds=True)
        if any(name.startswith("--delete") for name in given.names) and not _dry(given):
            yield Effect(Kind.DELETE, last, tree=True)


_TRANSFER_VALUED = frozenset(
    {"-i", "-P", "-F", "-o", "-c", "-l", "-S", "-J", "-e", "--rsh", "-f", "-B", "-T", "-M"}
    | {"--exclude", "--include", "--filter", "--exclude-from", "--files-from", "--bwlimit"}
)


def _remote(text: str) -> bool:
    head, colon, _ = text.partition(":")
    return bool(colon) and "/" not in head


def _dry(given: Options) -> bool:
    return given.any("-n", "--dry-run")


def _option_files(reads: frozenset[str], writes: frozenset[str]) -> Reader:
    """Return a reader for programs that name their files by option."""

    def read(call: Call) -> Iterator[Effect]:
        given = options(call.args, reads | writes | _URL_VALUED)
        for name, value in given.values.items():
            if name in writes and value.text != "-":
                yield Effect(Kind.WRITE, value)
            elif name in reads:
                yield Effect(Kind.READ, value)

    return read


_URL_VALUED = frozenset(
    {"-H", "--header", "-X", "--request", "-d", "--data", "-F", "--form", "-u", "--user", "-A"}
    | {"-e", "-b", "-x", "-m", "--data-binary", "--data-raw", "--data-urlencode", "-P", "-U"}
)


def _find(call: Call) -> Iterator[Effect]:
    if call.has("-delete"):
        for target in found_by(call):
            yield Effect(Kind.DELETE, target, tree=True, searched=True)


def _wiped(call: Call) -> Iterator[Effect]:
    given = options(call.args, frozenset({"-n", "-s", "--size", "--iterations", "-i"}))
    for operand in given.operands:
        yield Effect(Kind.WIPE, operand)


def _truncated(call: Call) -> Iterator[Effect]:
    given = options(call.args, frozenset({"-s", "--size", "-r", "--reference"}))
    for operand in given.operands:
        yield Effect(Kind.WRITE, operand)


def _last(call: Call) -> Iterator[Effect]:
    operands = options(call.args, _PROGRAM_VALUED).operands
    if operands:
        yield Effect(Kind.READ, operands[0])


def _touched(call: Call) -> Iterator[Effect]:
    given = options(call.args, frozenset({"-d", "-t", "-r", "--date", "--reference"}))
    for operand in given.operands:
        yield Effect(Kind.WRITE, operand, adds=True)


def _windows_delete(call: Call) -> Iterator[Effect]:
    """`del /s`, `rd /s /q`: options start with a slash or a dash."""
    tree = any(text.lower() in {"/s", "-s", "-r", "-recurse"} for text in call.texts)
    if call.verb == "rmdir" and not tree:
        return  # without `/s` it removes empty folders alone
    for arg in call.args:
        if not _OPTION.match(arg.text):
            yield Effect(Kind.DELETE, arg, tree=tree)


def _windows_copy(call: Call) -> Iterator[Effect]:
    operands = [arg for arg in call.args if not _OPTION.match(arg.text)]
    for source in operands[:1]:
        yield Effect(Kind.READ, source)
    for target in operands[1:2]:
        name = operands[0].text.replace("\\", "/").rpartition("/")[2]
        whole = target.text + name if target.text.endswith("\\") else target.text
        yield Effect(Kind.WRITE, target._replace(text=whole), adds=True)


_OPTION = re.compile(r"/[A-Za-z?]{1,2}(?:$|:)|-")
_NONE: frozenset[str] = frozenset()
_CURL = _option_files(
    frozenset({"-T", "--upload-file", "-K", "--config"}), frozenset({"-o", "--output"})
)
_WGET = _option_files(
    frozenset({"-i", "--post-file", "--body-file"}), frozenset({"-O", "--output-document"})
)
_OPENSSL = _option_files(frozenset({"-in", "-inkey"}), frozenset({"-out"}))


def _edited(call: Call) -> Iterator[Effect]:
    """An editor reads its files; behind `sudo` assume that it writes them."""
    kind = Kind.WRITE if {"sudo", "doas"} & set(call.via) else Kind.READ
    for operand in options(call.args, frozenset({"-c", "-u", "-S", "--cmd"})).operands:
        yield Effect(kind, operand, adds=True)


_READ = _operands(frozenset({"-n", "-c", "-l", "-s", "-t", "-w", "-j", "-N", "-A"}), Kind.READ)

_GPG_VALUED = frozenset(
    names("-o --output -r --recipient -u --local-user --passphrase --passphrase-fd --cipher-algo")
)
_READERS: dict[str, Reader] = {
    **dict.fromkeys(("rm", "unlink", "grm"), _rm),
    **dict.fromkeys(("cp", "mv", "install", "ln", "gcp"), _copy),
    **dict.fromkeys(("shred", "srm", "wipe", "scrub", "secure-delete"), _wiped),
    **dict.fromkeys(("sed", "perl", "gsed", "awk", "gawk", "mawk", "nawk"), _in_place),
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "ag"), _grep),
    **dict.fromkeys(("zip", "7z", "7za", "rar"), _archive),
    **dict.fromkeys(("scp", "rsync", "pscp"), _transfer),
    **dict.fromkeys(("find", "bfs", "gfind"), _find),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    **dict.fromkeys(("vi", "vim", "nvim", "nano", "emacs", "ed", "ex", "ee"), _edited),
    **dict.fromkeys(
        names(
            "cat tac less more head tail nl od xxd hexdump strings base64 base32 cut sort uniq rev"
            " bat view zcat gzip bzip2 xz zstd b64encode b64decode diff paste fold split ccencrypt"
        ),
        _READ,
    ),
    **dict.fromkeys(("del", "erase", "rd", "rmdir"), _windows_delete),
    **dict.fromkeys(("copy", "xcopy", "robocopy", "move", "ren", "rename"), _windows_copy),
    "type": _READ,
    "tee": _tee,
    "dd": _dd,
    "ditto": _ditto,
    "touch": _touched,
    "truncate": _truncated,
    "sponge": _tee,
    "curl": _CURL,
    "wget": _WGET,
    "openssl": _OPENSSL,
    "gpg": _operands(_GPG_VALUED, Kind.READ),
    "sqlite3": _last,
    "plutil": _operands(_NONE, Kind.READ),
}

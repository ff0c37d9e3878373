"""Find the effects of a call on files (read, write, delete, wipe), and the rules that they meet.

`find_effects` looks at the arguments alone. `rules_for_effect` decides whether an effect matters,
by the kind of path that it touches.
"""

import posixpath
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from demur.guards.code_execution.call import (
    Arg,
    CommandHit,
    ProgramCall,
    asks_person,
    find_targets,
    parse_options,
)
from demur.guards.code_execution.paths import (
    HOME,
    PathKind,
    WorkspaceBounds,
    canonical_path,
    changes_own_files,
    classify_path,
    delete_rule,
    is_system_critical,
    read_rule,
    vital_kind,
    write_rule,
)
from demur.guards.static.source_text import split_names, word_set


class EffectKind(StrEnum):
    """The kinds of effects on a file."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    WIPE = "wipe"
    ALTER = "alter"  # moved away, or given another mode or owner


class FileEffect(NamedTuple):
    """An effect on one file or tree; `append`: the old content stays; `empty`: none is added.

    If the target is a folder, what is written there has one of `names`.
    """

    kind: EffectKind
    target: Arg
    tree: bool = False
    append: bool = False
    from_search: bool = False
    empty: bool = False
    names: tuple[str, ...] = ()


EffectReader = Callable[[ProgramCall], Iterator[FileEffect]]
# Options that take a value, by program.
_COPY_VALUED = word_set("-t --target-directory -S --suffix -m -o -g")
_SED_VALUED = word_set("-e -f --expression --file -F -v -l")
_GREP_VALUED = word_set("-e --regexp -f --file -A -B -C -m --include --exclude -g -t")
_TAR_VALUED = word_set("-f --file -C --directory -X -T -I --exclude")
_TRANSFER_VALUED = word_set(
    "-i -P -F -o -c -l -S -J -e --rsh -f -B -T -M"
    " --exclude --include --filter --exclude-from --files-from --bwlimit"
)
_URL_VALUED = word_set(
    "-H --header -X --request -d --data -F --form -u --user -A"
    " -e -b -x -m --data-binary --data-raw --data-urlencode -P -U"
)


def find_effects(call: ProgramCall) -> Iterator[FileEffect]:
    """Yield the effects of `call` on files, redirections included."""
    for write in call.writes:
        yield FileEffect(EffectKind.WRITE, write.target, append=write.append)
    for read in call.reads:
        yield FileEffect(EffectKind.READ, read)
    if reader := _EFFECT_READERS.get(call.verb):
        yield from reader(call)
    else:
        yield from _output_options(call)
    yield from _secret_arguments(call)


# Programs that name a secret without showing or sending it, or that exist to use it.
_KEEPERS = word_set(
    "ssh scp sftp mosh sshfs autossh ssh-add ssh-keygen ssh-copy-id ssh-agent sshpass rsync ansible"
    " ansible-playbook kubectl helm k9s oc kubectx kubens aws az gcloud gsutil terraform vault pass"
    " gpg gpg2 sops age docker podman docker-compose nerdctl git gh chmod chown chgrp chattr"
    " setfacl getfacl ls dir tree stat test [ [[ mkdir touch rm rmdir cd pushd ln du df file"
    " readlink realpath basename dirname echo printf export unset declare local readonly alias find"
    " source . fd locate mount umount restorecon shred code open xdg-open restic borg chezmoi stow"
    " which man grep egrep fgrep rg ag ack sed python python3 sudo env nohup if"
    " time xargs while for until tar zip curl wget true false exit set id"
)
_SECRET_NAME = re.compile(r"/|^~|\bid_(?:rsa|dsa|ecdsa|ed25519)\b")
_PATH_IN_ARGUMENT = re.compile(
    r"(?:^|(?<=[=@<,:])|(?<=^-[A-Za-z]))(?:file://)?([~/.\w][^=@<,:\s]*)$"
)
_PATH_IN_TEXT = re.compile(r"[~/][^\s'\"`;,()|<>]+")
_TEXT_READERS = word_set(
    "sqlite3 psql mysql mariadb ftp tftp lftp vi vim nvim ex view ed node ruby php perl lua luajit"
    " deno bun julia rscript tclsh expect jjs jrunscript osascript groovy emacs gdb"
)
_MAX_TEXT_LENGTH = 20_000


def _secret_arguments(call: ProgramCall) -> Iterator[FileEffect]:
    """Yield the credentials that any argument names, whatever the program does with its files."""
    compares = call.verb == "git" and call.has_arg("diff", "hash-object")
    keeps = (call.verb in _KEEPERS or call.verb.startswith("python")) and not compares
    stdin = (call.name._replace(text=call.stdin.text),) if call.verb in _TEXT_READERS else ()
    for arg in (*call.args, *stdin):
        if not _SECRET_NAME.search(arg.text) or (keeps and not arg.text.startswith("file://")):
            continue
        match = _PATH_IN_ARGUMENT.search(arg.text)
        paths = [match[1]] if match else []
        if call.verb in _TEXT_READERS:
            paths += _PATH_IN_TEXT.findall(arg.text[:_MAX_TEXT_LENGTH])
        for path in paths:
            text = f"{HOME}{path[1:]}" if path.startswith("~/") else path
            is_secret = read_rule(canonical_path(text, call.cwd)) == "SECRET_READ"
            if is_secret and not _PROJECT_SETTINGS.search(text):
                yield FileEffect(EffectKind.READ, arg._replace(text=text, offset=None))


_PROJECT_SETTINGS = re.compile(r"(?:^|/)\.env[^/]*$")  # programs get their path
_OUTPUT_NAMES = word_set(
    "-o -O --output --out --outfile --output-file --log-file --logfile -Logfile -oN -oG -oX -oA"
)


def _output_options(call: ProgramCall) -> Iterator[FileEffect]:
    """Yield the absolute paths that options of an unknown program name as its output."""
    for arg, value in pairwise((*call.args, call.name)):
        name, equals, rest = arg.text.partition("=")
        target = arg._replace(text=rest, offset=None) if equals else value
        if name in _OUTPUT_NAMES and target.text[:1] == "/":
            yield FileEffect(EffectKind.WRITE, target, append=True)


def _operand_reader(
    names: str, kind: EffectKind, part: slice = slice(None), *, append: bool = False
) -> EffectReader:
    """Return a reader for programs whose operands are files; `names`: options with a value."""
    valued = frozenset(names.split())

    def read(call: ProgramCall) -> Iterator[FileEffect]:
        for operand in parse_options(call.args, valued).operands[part]:
            yield FileEffect(kind, operand, append=append)

    return read


def _rm_effects(call: ProgramCall) -> Iterator[FileEffect]:
    if asks_person(call, _RM_ASKS, _RM_SILENT):
        return
    options = parse_options(call.args)
    tree = options.has_any("-r", "-R", "--recursive", "-d", "--dir")
    for operand in options.operands:
        if operand.text != "\\":  # a name, or half of a line continuation; here it is no folder
            yield FileEffect(EffectKind.DELETE, operand, tree=tree)


_RM_ASKS = re.compile(r"-[a-zA-Z]*[iI][a-eg-zA-Z]*|--interactive(?:=always|=once)?")
_RM_SILENT = re.compile(r"-[a-zA-Z]*f[a-hj-zA-HJ-Z]*|--force|--interactive=never")


def _touch_effects(call: ProgramCall) -> Iterator[FileEffect]:
    for operand in parse_options(call.args, word_set("-d -t -r --date --reference")).operands:
        yield FileEffect(EffectKind.WRITE, operand, append=True, empty=True)


def _copy_effects(call: ProgramCall) -> Iterator[FileEffect]:
    """`cp`, `install`, `ln`, `mv`: all but the last are read, the last (or `-t`) is written."""
    options = parse_options(call.args, _COPY_VALUED)
    target = options.values.get("-t") or options.values.get("--target-directory")
    sources = options.operands if target else options.operands[:-1]
    if target is None and len(options.operands) > 1:
        target = options.operands[-1]
    for source in sources:
        if call.verb != "ln":
            yield FileEffect(EffectKind.READ, source)
        if call.verb == "mv" and target is not None and target.text == "/dev/null":
            yield FileEffect(EffectKind.DELETE, source, tree=True)
        elif call.verb == "mv":
            yield FileEffect(EffectKind.ALTER, source, tree=True)
    if target is not None:
        names = tuple(map(_last_name, sources))
        name = names[0] if len(names) == 1 else ""
        whole = f"{target.text.rstrip('/')}/{name}" if target.text.endswith("/") else target.text
        # The content that a copy replaces is unknown, but copying `/dev/null` empties the target.
        blank = any(source.text == "/dev/null" for source in sources)
        written = target._replace(text=whole)
        yield FileEffect(EffectKind.WRITE, written, append=not blank, names=names)


def _last_name(source: Arg) -> str:
    return source.text.rstrip("/").rpartition("/")[2]


def _tee_effects(call: ProgramCall) -> Iterator[FileEffect]:
    options = parse_options(call.args)
    for operand in options.operands:
        yield FileEffect(EffectKind.WRITE, operand, append=options.has_any("-a", "--append"))


def _dd_effects(call: ProgramCall) -> Iterator[FileEffect]:
    """`dd`: an input of random bytes or zeros wipes the output."""
    blank = call.has_arg("if=/dev/zero", "if=/dev/urandom", "if=/dev/random")
    for arg in call.args:
        name, _, value = arg.text.partition("=")
        if value.startswith("~/"):
            value = f"{HOME}{value[1:]}"
        if name == "of":
            outside = value.startswith("/") and not value.startswith("/tmp/")  # noqa: S108 - a name
            kind = EffectKind.WIPE if blank and outside else EffectKind.WRITE
            yield FileEffect(kind, arg._replace(text=value))
        elif name == "if":
            yield FileEffect(EffectKind.READ, arg._replace(text=value))


def _in_place_effects(call: ProgramCall) -> Iterator[FileEffect]:
    """`sed -i` and `perl -i` write their files; without it they read them."""
    options = parse_options(call.args, _SED_VALUED)
    inplace = any(text.startswith(("-i", "--in-place")) for text in call.texts)
    program_given = options.has_any("-e", "--expression", "-f", "--file")
    for operand in options.operands[0 if program_given else 1 :]:
        yield FileEffect(EffectKind.WRITE if inplace else EffectKind.READ, operand, append=True)


def _grep_effects(call: ProgramCall) -> Iterator[FileEffect]:
    options = parse_options(call.args, _GREP_VALUED)
    pattern_given = options.has_any("-e", "--regexp", "-f", "--file")
    for operand in options.operands[0 if pattern_given else 1 :]:
        yield FileEffect(EffectKind.READ, operand)


def _tar_effects(call: ProgramCall) -> Iterator[FileEffect]:
    """`tar` reads its operands when it creates, and writes to `-C` when it extracts."""
    args = call.args
    if args and args[0].text[:1] not in {"-", ""} and "=" not in args[0].text:
        args = (args[0]._replace(text=f"-{args[0].text}"), *args[1:])
    options = parse_options(args, _TAR_VALUED)
    if options.has_any("-c", "--create", "-r", "-u"):
        for operand in options.operands:
            yield FileEffect(EffectKind.READ, operand)
            if options.has_any("--remove-files"):
                yield FileEffect(EffectKind.DELETE, operand, tree=True)
    elif options.has_any("-x", "--extract", "--get") and (folder := options.values.get("-C")):
        yield FileEffect(EffectKind.WRITE, folder, append=True)


def _archive_effects(call: ProgramCall) -> Iterator[FileEffect]:
    """`zip`, `7z a`, `rar a`: the first operand is the archive, the rest is read."""
    options = parse_options(call.args, word_set("-P -p --password -b -x -i"))
    for operand in options.operands[1 if call.verb == "zip" else 2 :]:
        yield FileEffect(EffectKind.READ, operand)


def _transfer_effects(call: ProgramCall) -> Iterator[FileEffect]:
    """`scp`, `rsync`: local operands before the last are read; a local last one is written."""
    options = parse_options(call.args, _TRANSFER_VALUED)
    for operand in options.operands[:-1]:
        if not _is_remote(operand.text):
            yield FileEffect(EffectKind.READ, operand)
    if len(options.operands) > 1 and not _is_remote(options.operands[-1].text):
        last = options.operands[-1]
        names = tuple(map(_last_name, options.operands[:-1]))
        yield FileEffect(EffectKind.WRITE, last, append=True, names=names)
        deletes = any(name.startswith("--delete") for name in options.names)
        if deletes and not options.has_any("-n", "--dry-run"):
            yield FileEffect(EffectKind.DELETE, last, tree=True)


def _is_remote(text: str) -> bool:
    head, colon, _ = text.partition(":")
    return bool(colon) and "/" not in head


def _option_reader(read_options: str, write_options: str, folder_options: str = "") -> EffectReader:
    """Return a reader for programs that name their files, and folders for them, by option."""
    reads, writes, folders = map(word_set, (read_options, write_options, folder_options))

    def read(call: ProgramCall) -> Iterator[FileEffect]:
        options = parse_options(call.args, reads | writes | folders | _URL_VALUED)
        named = [value for name, value in options.values.items() if name in folders]
        for name, value in options.values.items():
            if name in folders:
                yield FileEffect(EffectKind.WRITE, value, append=True)
            elif name in writes and value.text != "-":
                yield FileEffect(EffectKind.WRITE, value)
                # Some programs look for the file in the folder, others do not.
                for folder in named:
                    path = posixpath.join(folder.text, value.text)
                    yield FileEffect(EffectKind.WRITE, value._replace(text=path, offset=None))
            elif name in reads:
                yield FileEffect(EffectKind.READ, value)

    return read


def _unzip_effects(call: ProgramCall) -> Iterator[FileEffect]:
    """`unzip` reads its archive, and writes to the folder that `-d` names."""
    options = parse_options(call.args, word_set("-d -P -x -I -O"))
    for operand in options.operands[:1]:
        yield FileEffect(EffectKind.READ, operand)
    if folder := options.values.get("-d"):
        yield FileEffect(EffectKind.WRITE, folder, append=True)


def _git_effects(call: ProgramCall) -> Iterator[FileEffect]:
    """`git clone`, `git init` and `git worktree` write to a folder, as seen from `-C`."""
    rest, start = iter(call.args), ""
    for arg in rest:
        if not arg.text.startswith("-"):
            break
        if arg.text in _GIT_VALUED and (value := next(rest, None)) and arg.text == "-C":
            start = posixpath.join(start, value.text)
    else:
        return
    options = parse_options(rest, _GIT_VALUED)
    named = list(options.operands)
    if arg.text == "clone":
        folders = named[1:2] or [one._replace(text=_cloned_name(one.text)) for one in named]
    elif arg.text == "init":
        folders = named[:1] or [arg._replace(text=".")]
    else:
        folders = named[1:2] if arg.text == "worktree" else []
    if apart := options.values.get("--separate-git-dir"):
        folders.append(apart)
    for folder in folders:
        path = posixpath.normpath(posixpath.join(start, folder.text)) if start else folder.text
        yield FileEffect(EffectKind.WRITE, folder._replace(text=path, offset=None), append=True)


def _cloned_name(url: str) -> str:
    """Return the folder that `git clone` makes for an address."""
    text = url.rstrip("/").removesuffix("/.git").rstrip("/")
    return re.split(r"[/:]", text)[-1].removesuffix(".git").removesuffix(".bundle")


_GIT_VALUED = word_set(
    "-C -c --git-dir --work-tree --namespace --config-env"
    " -b --branch -o --origin --depth --reference --reference-if-able --template"
    " --separate-git-dir -j --jobs --filter -B --shallow-since --shallow-exclude --config"
    " -u --upload-pack --server-option --bundle-uri --initial-branch --object-format --ref-format"
)


def _mount_effects(call: ProgramCall) -> Iterator[FileEffect]:
    """`mount` puts other files in the place of a folder."""
    options = parse_options(call.args, word_set("-t --types -o --options -L -U"))
    for operand in options.operands[1:]:
        yield FileEffect(EffectKind.ALTER, operand)


def _find_effects(call: ProgramCall) -> Iterator[FileEffect]:
    if call.has_arg("-delete"):
        for target in find_targets(call):
            yield FileEffect(EffectKind.DELETE, target, tree=True, from_search=True)


def _windows_delete(call: ProgramCall) -> Iterator[FileEffect]:
    """`del /s`, `rd /s /q`: options start with a slash or a dash."""
    tree = any(text.lower() in {"/s", "-s", "-r", "-recurse"} for text in call.texts)
    if call.verb == "rmdir" and not tree:
        return  # without `/s` it removes empty folders alone
    for arg in call.args:
        if not _OPTION.match(arg.text):
            yield FileEffect(EffectKind.DELETE, arg, tree=tree)


def _windows_copy(call: ProgramCall) -> Iterator[FileEffect]:
    operands = [arg for arg in call.args if not _OPTION.match(arg.text)]
    for source in operands[:1]:
        yield FileEffect(EffectKind.READ, source)
    for target in operands[1:2]:
        name = operands[0].text.replace("\\", "/").rpartition("/")[2]
        whole = target.text + name if target.text.endswith("\\") else target.text
        yield FileEffect(EffectKind.WRITE, target._replace(text=whole), append=True)


_OPTION = re.compile(r"/[A-Za-z?]{1,2}(?:$|:)|-")


def _editor_effects(call: ProgramCall) -> Iterator[FileEffect]:
    """An editor reads its files; behind `sudo` assume that it writes them."""
    kind = EffectKind.WRITE if {"sudo", "doas"} & set(call.via) else EffectKind.READ
    for operand in parse_options(call.args, word_set("-c -u -S --cmd")).operands:
        yield FileEffect(kind, operand, append=True)
    for arg in call.args:
        if match := _EDITOR_WRITE.match(arg.text):
            yield FileEffect(EffectKind.WRITE, arg._replace(text=match[1], offset=None))


_EDITOR_WRITE = re.compile(r":?\s*(?:w|wq|write|sav|saveas)!?\s+([/~]\S+)")


_EFFECT_READERS: dict[str, EffectReader] = {
    **dict.fromkeys(("rm", "unlink", "grm"), _rm_effects),
    **dict.fromkeys(("cp", "mv", "install", "ln", "gcp"), _copy_effects),
    **dict.fromkeys(
        ("shred", "srm", "wipe", "scrub", "secure-delete"),
        _operand_reader("-n -s --size --iterations -i", EffectKind.WIPE),
    ),
    **dict.fromkeys(("sed", "perl", "gsed", "awk", "gawk", "mawk", "nawk"), _in_place_effects),
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "ag"), _grep_effects),
    **dict.fromkeys(("zip", "7z", "7za", "rar"), _archive_effects),
    **dict.fromkeys(("scp", "rsync", "pscp"), _transfer_effects),
    **dict.fromkeys(("find", "bfs", "gfind"), _find_effects),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar_effects),
    **dict.fromkeys(("vi", "vim", "nvim", "nano", "emacs", "ed", "ex", "ee"), _editor_effects),
    **dict.fromkeys(
        split_names(
            "cat tac less more head tail nl od xxd hexdump strings base64 base32 cut sort uniq rev"
            " bat view zcat gzip bzip2 xz zstd b64encode b64decode diff paste fold split ccencrypt"
            " type"
        ),
        _operand_reader("-n -c -l -s -t -w -j -N -A", EffectKind.READ),
    ),
    **dict.fromkeys(("del", "erase", "rd", "rmdir"), _windows_delete),
    **dict.fromkeys(("copy", "xcopy", "robocopy", "move", "ren", "rename"), _windows_copy),
    **dict.fromkeys(("tee", "sponge"), _tee_effects),
    "dd": _dd_effects,
    "ditto": _operand_reader("", EffectKind.READ, slice(-1)),
    "touch": _touch_effects,
    **dict.fromkeys(
        ("chmod", "chown", "chgrp", "chattr", "setfacl"),
        _operand_reader("-m --reference", EffectKind.ALTER),
    ),
    "truncate": _operand_reader("-s --size -r --reference", EffectKind.WRITE),
    "curl": _option_reader("-T --upload-file -K --config", "-o --output", "--output-dir"),
    "aria2c": _option_reader("-i --input-file", "-o --out", "-d --dir"),
    "wget": _option_reader(
        "-i --post-file --body-file", "-O --output-document", "-P --directory-prefix"
    ),
    "unzip": _unzip_effects,
    "git": _git_effects,
    "mount": _mount_effects,
    **dict.fromkeys(("mkfifo", "mknod"), _operand_reader("-m --mode", EffectKind.ALTER)),
    "openssl": _option_reader("-in -inkey", "-out"),
    "gpg": _operand_reader(
        "-o --output -r --recipient -u --local-user --passphrase --passphrase-fd --cipher-algo",
        EffectKind.READ,
    ),
    "sqlite3": _operand_reader("-e -f --expression --file -F -v -l", EffectKind.READ, slice(1)),
    "plutil": _operand_reader("", EffectKind.READ),
    **dict.fromkeys(
        ("script", "logsave"),
        _operand_reader("-c --command -T -I -O -B -E -m -o", EffectKind.WRITE, slice(1)),
    ),
}


_DELETE_TREE_RULES = {
    PathKind.ROOT: "DELETE_ROOT",
    **dict.fromkeys((PathKind.SYSTEM, PathKind.DEVICE), "DELETE_SYSTEM"),
    PathKind.HOME_ITSELF: "DELETE_WHOLE_HOME",
    PathKind.HOME: "DELETE_HOME",
    PathKind.OUTSIDE: "DELETE_OUTSIDE",
    PathKind.WORKSPACE_ITSELF: "DELETE_WORKSPACE",
}
_DELETE_FILE_RULES = {
    **dict.fromkeys((PathKind.SYSTEM, PathKind.HOME, PathKind.OUTSIDE), "DELETE_FILE_OUTSIDE"),
    PathKind.ROOT: "DELETE_ROOT",
    PathKind.DEVICE: "DELETE_SYSTEM",
    PathKind.HOME_ITSELF: "DELETE_WHOLE_HOME",
}
_WIPE_RULES = {
    **_DELETE_TREE_RULES,
    PathKind.DEVICE: "OVERWRITE_DEVICE",
    **dict.fromkeys((PathKind.INSIDE, PathKind.SCRATCH, PathKind.UNKNOWN), "SHRED"),
}
# The whole of `/` if the variable is empty; the named ones are set where they are used.
_ROOT_IF_EMPTY = re.compile(
    r"\$(?!(?:TMPDIR|TMP|TEMP|RUNNER_TEMP|XDG_RUNTIME_DIR|XDG_CACHE_HOME)\b)\w*(?:/|/?\.?\*+)"
)
_HISTORY = ("/.git", "/.hg", "/.svn")


def rules_for_effect(effect: FileEffect, cwd: str, bounds: WorkspaceBounds) -> Iterator[CommandHit]:
    """Yield the rules that `effect` matches."""
    text = effect.target.text
    if effect.kind is EffectKind.READ:
        if rule := read_rule(canonical_path(text, cwd)):
            yield CommandHit(rule, text)
        return
    where = classify_path(text, cwd, bounds)
    if where is PathKind.STREAM:
        return
    path = canonical_path(text, cwd)
    whole = effect.tree or effect.kind is EffectKind.ALTER
    paths = (path, *(f"{path}/{name}" for name in effect.names if name))
    if any(changes_own_files(one, bounds, tree=whole) for one in paths):
        yield CommandHit("OWN_FILES", text)
    if effect.kind is EffectKind.ALTER:
        if effect.tree and (vital := vital_kind(text, cwd, bounds)):
            yield CommandHit(_DELETE_TREE_RULES[vital], text)
        return
    if (effect.tree or "*" in text) and where is not PathKind.UNKNOWN:
        where = vital_kind(text, cwd, bounds) or where
    if effect.kind is EffectKind.DELETE:
        yield from _rules_for_delete(effect, where, path)
    elif effect.kind is EffectKind.WIPE:
        yield CommandHit(_WIPE_RULES[where], text)
    else:
        yield from _rules_for_write(effect, where, path, bounds)


def _rules_for_delete(effect: FileEffect, path_kind: PathKind, path: str) -> Iterator[CommandHit]:
    text = effect.target.text
    if path_kind is not PathKind.INSIDE and (rule := delete_rule(path)):
        yield CommandHit(rule, text)
    elif path_kind is PathKind.UNKNOWN:
        if effect.tree and _ROOT_IF_EMPTY.fullmatch(text):
            yield CommandHit("DELETE_UNKNOWN", text)
    elif effect.tree and path.endswith(_HISTORY):
        yield CommandHit("DELETE_WORKSPACE", text)
    elif effect.from_search and path_kind is PathKind.INSIDE:
        yield CommandHit("DELETE_SEARCHED", text)
    else:
        severe = effect.tree or "*" in text or is_system_critical(path)
        table = _DELETE_TREE_RULES if severe else _DELETE_FILE_RULES
        if path_kind in table:
            yield CommandHit(table[path_kind], text)


_PLAIN_SETTING = re.compile(
    r"\s*(?:\[\[? -[defx] [^]$`]*(?:\$\w+[^]$`]*)? \]?\] && )?"
    r"(?:export )?(?:PATH|[A-Z][A-Z0-9]*_(?:ROOT|HOME|DIR|VERSION)|GOPATH)="
    r"\"?(?:\$[A-Z_]+|\$\{[A-Z_]+\}|/\~|~|/usr|/opt)[\w/.:${}~-]*\"?\s*(?:#.*)?"
    r"|\s*eval \"\$\([\w/.-]+ (?:[\w-]*init|hook|shellenv|activate)(?: [\w-]+)*\)\"\s*|\s*#.*|\s*"
)


def sets_plain_variables(text: str) -> bool:
    """Whether lines for a start-up file only set a search path, or set up an installed program."""
    return bool(text) and all(_PLAIN_SETTING.fullmatch(line) for line in text.split("\n"))


def _rules_for_write(
    effect: FileEffect, path_kind: PathKind, path: str, bounds: WorkspaceBounds
) -> Iterator[CommandHit]:
    text = effect.target.text
    if path_kind is PathKind.DEVICE:
        yield CommandHit("OVERWRITE_DEVICE", text)
    elif not effect.append and path_kind is not PathKind.INSIDE and (rule := delete_rule(path)):
        yield CommandHit(rule, text)
    elif not effect.empty and (rule := write_rule(path, bounds)):
        lost = not effect.append and is_system_critical(path) and rule == "ACCOUNT_FILES"
        yield CommandHit("OVERWRITE_SYSTEM" if lost else rule, text)
    elif path_kind in _OUTSIDE:
        if is_system_critical(path):
            yield CommandHit("WRITE_SYSTEM" if effect.append else "OVERWRITE_SYSTEM", text)
        else:
            yield CommandHit("WRITE_OUTSIDE", text)


_OUTSIDE = {PathKind.SYSTEM, PathKind.HOME, PathKind.HOME_ITSELF, PathKind.OUTSIDE, PathKind.ROOT}

"""Checks on what a Python file does: processes, downloads, sent secrets, deletions, rights."""

import ast
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import urlsplit

from demur.guards.skill.event import SkillConfig
from demur.guards.skill.python_checks import PythonSource
from demur.guards.skill.python_spying import surroundings_hit
from demur.guards.skill.rules import SkillHit
from demur.guards.static.python_flow import Origin
from demur.guards.static.python_names import (
    PROCESSES,
    READERS,
    SENDERS,
    SHELLS,
    STARTUP_PLACE,
    WALKERS,
    WIPERS,
    dotted_names,
    is_network,
)
from demur.guards.static.source_text import word_set
from demur.model.finding import Action

_RUNNERS = PROCESSES | {"exec", "runpy.run_path", "os.startfile", "importlib.import_module"}
# Loaders that take the name of a module before its file.
_LOADERS = frozenset(
    {"importlib.util.spec_from_file_location", "importlib.machinery.SourceFileLoader"}
)
# The word after one of these is a program itself.
_INLINE = frozenset({"-c", "-e", "/c", "-Command", "-EncodedCommand", "-enc"})
_INTERPRETER = re.compile(
    r"(?:/\S*/)?(?:python[\d.]*|bash|sh|zsh|node|perl|ruby|powershell|pwsh|chmod)\b"
)
_INSTALLS = re.compile(
    r"\b(?:pip3?|uv|npm|yarn|pnpm)\b.{0,40}\b(?:install|add)\b"
    r".{0,200}(?:https?://|\bgit\+|--(?:extra-)?index-url\b|--registry\b)"
)
_WRITERS = frozenset({"write", "write_bytes", "write_text"})


def find_processes(source: PythonSource) -> Iterator[SkillHit]:
    """Yield commands that are downloaded, decoded or assembled for a shell."""
    started = False
    for call, path in source.calls:
        if path not in PROCESSES or not call.args:
            continue
        yield from _command_hits(source, call, path)
        if _INSTALLS.search(command_text(source, call) or ""):
            detail = f"installs from an address: `{source.quote(call)}`"
            yield source.hit("PY_INSTALLS", call, detail)
        if path.startswith("os.") and not started and not source.config.allows_import("os"):
            # Modules made for processes are reported at their import; `os` is not.
            started = True
            detail = f"starts a program: `{source.quote(call)}`"
            yield source.hit("PY_PROCESS_START", call, detail)


def command_text(source: PythonSource, call: ast.Call) -> str | None:
    """Return the command line that a call runs, or None if it is not constant."""
    match call.args[0]:
        case ast.List(elts=[first, *rest]) if source.names.dotted_path(first) == "sys.executable":
            texts = [source.constant_text(word) for word in rest]
            known = [text for text in texts if text is not None]
            return shlex.join(["python", *known]) if len(known) == len(texts) else None
        case _:
            folded = source.names.fold(call.args[0])
    if folded is None:
        return None
    if isinstance(folded.value, list):
        words = [word for word in folded.value if isinstance(word, str)]
        return shlex.join(words) if len(words) == len(folded.value) else None
    return folded.value if isinstance(folded.value, str) else None


def _command_hits(source: PythonSource, call: ast.Call, path: str) -> Iterator[SkillHit]:
    first = call.args[0]
    origin = source.join_origins(_program_parts(first))
    quote = source.quote(call)
    if Origin.REMOTE in origin:
        yield source.hit("PY_EXEC_REMOTE", call, f"runs what it downloads: `{quote}`")
    elif Origin.DECODED in origin:
        detail = f"runs decoded text: `{quote}`"
        yield source.hit("PY_EXEC_DECODED", call, detail, technique="decoded and run")
    elif _is_mixed(first, source) and (path in SHELLS or _wants_shell(call)):
        yield source.hit("PY_SHELL_DYNAMIC", call, f"builds a shell command: `{quote}`")


def _program_parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of a command that name the program or its code; skip plain operands."""
    match node:
        case ast.List(elts=[first, *rest]) | ast.Tuple(elts=[first, *rest]):
            yield from _program_parts(first)
            for option, value in pairwise([first, *rest]):
                if isinstance(option, ast.Constant) and option.value in _INLINE:
                    yield value
        case ast.JoinedStr(values=[first, *_]) | ast.BinOp(left=first):
            yield from _program_parts(first)
        case ast.FormattedValue(value=value):
            yield value
        case _:
            yield node


def _is_mixed(node: ast.expr, source: PythonSource) -> bool:
    """Return whether the expression assembles text at run time."""
    match node:
        case ast.JoinedStr() | ast.BinOp() | ast.Call(func=ast.Attribute(attr="format" | "join")):
            return source.names.fold(node) is None
        case _:
            return False


def _wants_shell(call: ast.Call) -> bool:
    return any(
        keyword.arg == "shell"
        and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
        for keyword in call.keywords
    )


def find_downloads_run(source: PythonSource) -> Iterator[SkillHit]:
    """Yield runs of a file that the same source fetched."""
    if not any(is_network(path) for _, path in source.calls):
        return
    fetched = {shape for shape in _fetched_files(source) if shape}
    checked = any(path and path.startswith("hashlib.") for _, path in source.calls)
    for call, path in source.calls:
        loaded = set(map(_node_shape, call.args[1:2])) if path in _LOADERS else set()
        started = set(_started_files(call)) if path in _RUNNERS else loaded
        if fetched.intersection(started):
            action = Action.ESCALATE if checked else None
            detail = f"runs a file it fetched: `{source.quote(call)}`"
            yield source.hit("PY_DOWNLOAD_RUN", call, detail, action)


def _fetched_files(source: PythonSource) -> Iterator[str]:
    """Yield the shape of every expression that names a file with downloaded content."""
    opened = dict(_opened_files(source))
    for call, path in source.calls:
        if path == "urllib.request.urlretrieve" and len(call.args) > 1:
            yield _node_shape(call.args[1])
        match call.func:
            case ast.Attribute(attr=name, value=base) if name in _WRITERS:
                if any(Origin.REMOTE in source.flow.origin_of(value) for value in call.args):
                    yield opened.get(_node_shape(base), "")
                    yield _node_shape(_file_expression(base))
            case _:
                pass


def _opened_files(source: PythonSource) -> Iterator[tuple[str, str]]:
    """Yield the variable that holds an open file, and the expression that names the file."""
    for node in source.nodes:
        match node:
            case (
                ast.withitem(context_expr=ast.Call() as call, optional_vars=ast.Name() as name)
                | ast.Assign(targets=[ast.Name() as name], value=ast.Call() as call)
            ):
                yield _node_shape(name), _node_shape(_file_expression(call))
            case _:
                pass


def _file_expression(node: ast.expr) -> ast.expr:
    """Return the expression that names the file which `node` opens, or `node` itself."""
    match node:
        case ast.Call(func=ast.Name(id="open" | "Path"), args=[name, *_]):
            return name
        case ast.Call(func=ast.Attribute(attr="open", value=base)):
            return base
        case _:
            return node


def _started_files(call: ast.Call) -> Iterator[str]:
    """Yield the shapes of what a call starts: the program, or the script of an interpreter."""
    for node in call.args[:1]:
        yield from map(_node_shape, _program_parts(node))
        parts = [part for part in ast.walk(node) if isinstance(part, ast.expr)]
        if any(_is_interpreter(part) for part in parts):
            yield from map(_node_shape, parts)


def _is_interpreter(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr="executable"):
            return True
        case ast.Constant(value=str(text)):
            return _INTERPRETER.match(text) is not None
        case _:
            return False


def _node_shape(node: ast.expr) -> str:
    """Return a key that equal names or texts share; an empty text for larger expressions."""
    match node:
        case ast.Name(id=name):
            return f"name {name}"
        case ast.Attribute(value=ast.Name(id=base), attr=name):
            return f"name {base}.{name}"
        case ast.Constant(value=str(value)):
            return f"text {value.removeprefix('./')}"
        case _:
            return ""


def find_reverse_shells(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls that make a connection the standard streams of a process."""
    for call, path in source.calls:
        copied = path == "os.dup2" and _is_stream(call)
        if copied and Origin.REMOTE in source.flow.origin_of(call.args[0]):
            yield source.hit("PY_REVERSE_SHELL", call, "hands its streams to a connection")
        elif path in PROCESSES and any(
            keyword.arg in {"stdin", "stdout"}
            and Origin.REMOTE in source.flow.origin_of(keyword.value)
            for keyword in call.keywords
        ):
            yield source.hit("PY_REVERSE_SHELL", call, "hands a program's streams to a connection")


def _is_stream(call: ast.Call) -> bool:
    """Return whether a call replaces standard input, output or error."""
    match call.args:
        case [_, ast.Constant(value=0 | 1 | 2), *_]:
            return True
        case [_, ast.Call(func=ast.Attribute(attr="fileno", value=ast.Attribute(attr=name))), *_]:
            return name in {"stdin", "stdout", "stderr"}
        case [_, ast.Name(), *_]:
            # `for stream in (0, 1, 2)`
            return True
        case _:
            return False


_LOGINS = frozenset({"auth", "cert", "headers", "verify", "proxies", "timeout"})
_CONTENT = Origin.SECRET | Origin.ENVIRONMENT
_OPENERS = frozenset({"open", "read_bytes", "read_text"})
_ARCHIVERS = frozenset({"shutil.copytree", "shutil.make_archive"})
_PACKERS = frozenset({"add", "glob", "iterdir", "rglob", "write"})
# Methods that send the file at a path.
_UPLOADS = word_set("put put_file upload upload_file upload_from_filename fput_object")
# Hosts where anyone can create an address and read what is sent to it.
_DROPS = re.compile(
    r"https?://(?:[\w-]+\.)*(?:webhook\.site|requestbin\.\w+|pipedream\.net|ngrok(?:-free)?\.\w+"
    r"|ngrok\.io|burpcollaborator\.net|oastify\.com|interact\.sh|oast\.\w+|beeceptor\.com"
    r"|transfer\.sh|pastebin\.com/raw|hastebin\.com|termbin\.com|trycloudflare\.com"
    r"|discord(?:app)?\.com/api/webhooks|api\.telegram\.org/bot)[^\s'\"`<>)\]]*",
    re.IGNORECASE,
)


def find_drop_hosts(text: str, config: SkillConfig) -> Iterator[SkillHit]:
    """Yield addresses at which anyone can collect data."""
    for found in _DROPS.finditer(text):
        host = urlsplit(found[0]).hostname or ""
        if not config.allows_host(host):
            detail = f"names `{host}`, where anyone can collect data"
            yield SkillHit("HOST_DROP", *found.span(), detail, {"destination": host})


def find_sent_secrets(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls that send private data, and reads of it in files that could send it."""
    sent = [*_sent_secrets(source), *_packed_homes(source)]
    yield from sent
    if sent or not any(is_network(path) for _, path in source.calls):
        return
    for call, path in source.calls:
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        reads = (path in READERS or method in _OPENERS) and (
            Origin.SECRET in source.flow.origin_of(call)
        )
        packs = path in WALKERS or method in _PACKERS
        if reads or (packs and Origin.SECRET_PLACE in source.join_origins(call.args)):
            yield source.hit("PY_SECRET_READ", call, f"reads secrets: `{source.quote(call)}`")
            return


def _packed_homes(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls that pack a whole home in a file that could send it."""
    if any(is_network(path) for _, path in source.calls):
        for call, path in source.calls:
            if path in _ARCHIVERS and any(map(source.flow.is_whole_place, call.args)):
                detail = f"packs a whole home: `{source.quote(call)}`"
                yield source.hit("PY_FILES_SENT", call, detail)


def _sent_secrets(source: PythonSource) -> Iterator[SkillHit]:
    for call, path in source.calls:
        if not _is_send(source, call, path):
            continue
        # Headers and the like are for login; the rest is content.
        named = (word.value for word in call.keywords if word.arg not in _LOGINS)
        content = source.join_origins((*call.args, *named))
        if Origin.SECRET_PLACE in content and _called_method(call) in _UPLOADS:
            content |= Origin.SECRET
        host = _request_host(source, call)
        if content & _CONTENT and not (host and source.config.allows_host(host)):
            kind = "environment" if Origin.ENVIRONMENT in content else "stored secrets"
            detail = f"sends {kind} by `{source.quote(call)}`"
            yield source.hit("PY_SECRET_SENT", call, detail, data=kind, destination=host or "")
        elif Origin.TOKEN in content and not (host and source.config.allows_host(host)):
            detail = f"sends a credential as content by `{source.quote(call)}`"
            yield source.hit("PY_TOKEN_SENT", call, detail, data="credential")
        elif not (host and source.config.allows_host(host)):
            hit = surroundings_hit(source, call, content)
            if hit is not None:
                yield hit


def _called_method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _is_send(source: PythonSource, call: ast.Call, path: str | None) -> bool:
    if path is not None and is_network(path):
        return path.rpartition(".")[2] in SENDERS
    match call.func:
        case ast.Attribute(attr=name, value=base) if name in SENDERS:
            return Origin.REMOTE in source.flow.origin_of(base)
        case _:
            return False


def _request_host(source: PythonSource, call: ast.Call) -> str | None:
    for argument in call.args:
        text = source.names.folder.join_strings(argument)
        if "://" in text:
            try:
                return urlsplit(text[text.index("http") :]).hostname if "http" in text else None
            except ValueError:
                return None
    return None


# The root or a home, or a system folder, and nothing narrower.
_WHOLE = re.compile(r"(?:/|~/?|/(?:home|root|Users)/?|[A-Za-z]:[/\\]*(?:Users)?[/\\]*|\$HOME/?)\*?")
_SYSTEM = re.compile(
    r"(?:/(?:bin|boot|etc|lib|opt|srv|usr|var|System|Library)/?|[A-Za-z]:[/\\]*Windows[/\\]*)\*?"
)
_HOMES = frozenset({"os.path.expanduser", "pathlib.Path.home", "Path.home"})
# A home, or a folder in it that holds what a person made.
_OWN_FILES = re.compile(
    r"(?:~|\$HOME)?/?(?:Desktop|Documents|Downloads|Movies|Music|Pictures|Photos|Videos|OneDrive|Dropbox)"
    r"?/?\*?"
)
_RIGHTS = frozenset({"os.setuid", "os.seteuid", "os.setreuid", "os.setgid", "os.setresuid"})
_MEMORY = word_set(
    "CreateRemoteThread NtCreateThreadEx RtlMoveMemory VirtualAlloc VirtualAllocEx"
    " VirtualProtect WriteProcessMemory mprotect ptrace"
)
_SET_ID = 0o6000


def find_damage(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls that would wipe a vital folder or take another user's rights."""
    for call, path in source.calls:
        if path in WIPERS and call.args and (rule := _wipe_rule(source, call.args[0])):
            yield source.hit(rule, call, f"wipes a vital folder: `{source.quote(call)}`")
        elif path in _RIGHTS and [source.names.fold(arg) for arg in call.args[:1]] == [(0, False)]:
            yield source.hit("PY_PRIVILEGE", call, f"becomes root: `{source.quote(call)}`")
        elif path == "os.chmod" and len(call.args) > 1:
            mode = source.names.fold(call.args[1])
            if mode and isinstance(mode.value, int) and mode.value & _SET_ID:
                detail = f"lets a file run as its owner: `{source.quote(call)}`"
                yield source.hit("PY_PRIVILEGE", call, detail)


def _wipe_rule(source: PythonSource, node: ast.expr) -> str | None:
    """Return the rule on wiping a folder, or None if it is no vital one."""
    text = source.constant_text(node)
    if text is None:
        return "PY_DESTROYS" if _names_home(source, node) else None
    if _WHOLE.fullmatch(text):
        return "PY_DESTROYS"
    return "PY_DESTROYS_SYSTEM" if _SYSTEM.fullmatch(text) else None


def _names_home(source: PythonSource, node: ast.expr) -> bool:
    """Return whether the expression names a home, or the folders of its owner in it."""
    match node:
        case ast.Call(func=function, args=args):
            path = source.names.dotted_path(function)
            if path in _HOMES:
                return all(any(_is_own(text) for text in _texts_of(source, arg)) for arg in args)
            return False
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _names_home(source, left) and any(map(_is_own, _texts_of(source, right)))
        case _:
            return False


def _is_own(text: str) -> bool:
    return _OWN_FILES.fullmatch(text) is not None


def _texts_of(source: PythonSource, node: ast.expr) -> Iterator[str]:
    """Yield the texts that an expression can be: a constant, or each item of a loop over them."""
    text = source.constant_text(node)
    if text is not None:
        yield text
    elif isinstance(node, ast.Name):
        for loop in source.nodes:
            match loop:
                case ast.For(target=ast.Name(id=name), iter=ast.Tuple() | ast.List() as items) if (
                    name == node.id
                ):
                    yield from filter(None, map(source.constant_text, items.elts))
                case _:
                    pass


_PLACERS = dotted_names("shutil", "copy copy2 copyfile move") | (
    dotted_names("os", "link rename replace symlink")
)


def find_startup_writes(source: PythonSource) -> Iterator[SkillHit]:
    """Yield writes to files that run at each login, or that let others in."""
    for call, path in source.calls:
        target = _written_target(call, path)
        if target is None:
            continue
        found = STARTUP_PLACE.search(source.names.folder.join_strings(target))
        if found:
            yield source.hit("PY_STARTUP", call, f"writes to `{found[0]}`", place=found[0])


def _written_target(call: ast.Call, path: str | None) -> ast.expr | None:
    """Return the expression that names the file which `call` writes to, or None."""
    if path in {"open", "io.open"} and call.args:
        modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
        texts = (str(mode.value) for mode in modes if isinstance(mode, ast.Constant))
        writes = any(set(text) & set("wax+") for text in texts)
        return call.args[0] if writes else None
    if path in _PLACERS and len(call.args) > 1:
        return call.args[1]
    match call.func:
        case ast.Attribute(attr="write_text" | "write_bytes", value=base):
            return base
        case ast.Attribute(attr="open", value=base):
            modes = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "mode")]
            texts = (str(mode.value) for mode in modes if isinstance(mode, ast.Constant))
            return base if any(set(text) & set("wax+") for text in texts) else None
        case _:
            return None


def find_native_injection(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls into native memory as code injection makes them, the first of each name."""
    seen: set[str] = set()
    for call, _ in source.calls:
        match call.func:
            case ast.Attribute(attr=name) if name in _MEMORY and name not in seen:
                seen.add(name)
                yield source.hit("PY_NATIVE_INJECTION", call, f"calls `{name}` of the system")
            case _:
                pass

"""What each call of Python does: processes, files, requests and evaluated text, by its function.

A handler gets the call and the name under which the tables know its function, and reports what the
call does to the walk that all handlers share.
"""

import ast
import re
from collections.abc import Callable, Iterator

from demur.guards.code_execution.call import (
    EMPTY,
    UNKNOWN,
    UNKNOWN_PLACEHOLDER,
    Arg,
    CommandHit,
    ProgramCall,
    Taint,
    Value,
    program_name,
)
from demur.guards.code_execution.context import MAX_DEPTH, CommandContext, Location, Walker
from demur.guards.code_execution.effects import EffectKind, FileEffect
from demur.guards.code_execution.network_checks import (
    PRIVATE_TAINTS,
    check_hosts,
    check_sent_data,
    find_hosts,
)
from demur.guards.code_execution.paths import PathKind, classify_path
from demur.guards.code_execution.python_values import PythonValues
from demur.guards.static.python_flow import is_self
from demur.guards.static.python_names import dotted_names
from demur.guards.static.source_text import SourceText, split_names, word_set

OPENERS = frozenset({"open", "io.open", "codecs.open"})


ReadCode = Callable[[Arg, Walker, Location], None]


class PythonWalk:
    """The state that call handlers share."""

    def __init__(self, text: str, walker: Walker, location: Location, read: ReadCode) -> None:
        self._read = read
        self.walker = walker
        self.location = location
        self.names = PythonValues(walker.cwd)
        self.context = CommandContext(walker.config, walker.bounds)
        self.source = SourceText("", text)
        self.open_files: dict[str, Value] = {}
        self.called_modules: set[str] = set()
        self.unclear_modules: set[str] = set()
        # Whether a function gets a text that is not plain from its call.
        self.is_unclear = False
        self.unclear_deletions: list[ast.Call] = []
        self.unclear_runs: list[ast.Call] = []

    def report(self, rule: str, node: ast.expr | ast.stmt, target: str = "") -> None:
        """Report a rule at `node`."""
        start, end = self.source.node_span(node)
        self.walker.report(CommandHit(rule, target), start, end, "python", self.location)

    def first_arg(self, node: ast.Call, *keywords: str) -> Value:
        """Return the first argument of a call, or one of these keywords."""
        if node.args:
            return self.names.evaluate_node(node.args[0])
        values = (keyword.value for keyword in node.keywords if keyword.arg in keywords)
        return next(map(self.names.evaluate_node, values), UNKNOWN)

    def function_name(self, node: ast.expr) -> str:
        """Return the name under which the tables know a function, or the name as written."""
        written = self.names.dotted_name(node)
        for name in (written, self.names.static.dotted_path(node) or ""):
            plain = name.removesuffix(".__call__")
            plain = plain.removeprefix("builtins.").removeprefix("__builtins__.")
            parts = plain.replace("posix.", "os.").split(".")
            # `shutil.os.system` is `os.system`.
            for known in (plain, ".".join(parts[-2:]).lstrip("_")):
                if known in CALL_HANDLERS or known in IMPORTERS:
                    return known
        return written

    def located_arg(self, value: Value, node: ast.expr) -> Arg:
        """Return `value` with its span."""
        start, end = self.source.node_span(node)
        offset = self.source.string_offset(node, value.text)
        return Arg(value.text, start, end, value.known, value.taints, offset)

    def read_nested(self, arg: Arg) -> None:
        """Judge code inside the code."""
        if self.location.depth < MAX_DEPTH:
            self._read(arg, self.walker, self.location)
        else:
            hit = CommandHit("NESTED_TOO_DEEP")
            self.walker.report(hit, arg.start, arg.end, "python", self.location)

    def read_guess(self, arg: Arg, location: Location) -> None:
        """Judge code that nothing is known to run."""
        if location.depth < MAX_DEPTH:
            self._read(arg, self.walker, location)

    def report_origins(self, value: Value, node: ast.Call, name: str) -> None:
        """Report code that was downloaded or decoded."""
        if Taint.DOWNLOAD in value.taints:
            self.report("DOWNLOAD_RUN", node, name)
        elif Taint.DECODED in value.taints:
            self.report("DECODED_RUN", node, name)

    def report_effect(
        self,
        node: ast.Call,
        path: Value,
        kind: EffectKind,
        *,
        tree: bool = False,
        append: bool = False,
    ) -> None:
        """Report an effect on a file."""
        if path.text:
            start, end = self.source.node_span(node)
            target = Arg(path.text, start, end, path.known, path.taints)
            effect = FileEffect(kind, target, tree=tree, append=append)
            self.walker.report_effect(effect, start, end, "python", self.location)

    def judge_program(self, items: list[ast.expr], node: ast.Call, name: str) -> None:
        """Judge a program that a call starts with a list of words."""
        words = (word for item in items for word in _spread_words(item))
        args = [self.located_arg(self.names.evaluate_node(word), word) for word in words]
        if any(not arg.known for arg in args):
            self.unclear_modules.add(name.partition(".")[0])
        if not args:
            return
        start, end = self.source.node_span(node)
        name_arg, *rest = (
            arg if arg.text else arg._replace(text=UNKNOWN_PLACEHOLDER) for arg in args
        )
        via, cwd = (*self.location.via, "python"), self.walker.cwd
        call = ProgramCall(program_name(name_arg.text), name_arg, tuple(rest), via=via, cwd=cwd)
        self.walker.judge_program(call, start, end, self.location._replace(via=via))

    def opened_path(self, node: ast.expr) -> Value:
        """Return the path that an expression opens, if it opens one."""
        if isinstance(node, ast.Name):
            return self.open_files.get(node.id, UNKNOWN)
        if not isinstance(node, ast.Call) or self.names.dotted_name(node.func) not in OPENERS:
            return UNKNOWN
        return self.names.evaluate_node(node.args[0]) if node.args else UNKNOWN

    def record_write(self, path: Value, node: ast.Call) -> None:
        """Record the content that a call writes to a file."""
        if path.text and node.args:
            self.walker.record_write(path.text, self.names.evaluate_node(node.args[0]))


def _spread_words(item: ast.expr) -> Iterator[ast.expr]:
    """Yield the words of an item; `*[a, b]` are two."""
    inside = item.value if isinstance(item, ast.Starred) else None
    yield from inside.elts if isinstance(inside, ast.List | ast.Tuple) else (item,)


CallHandler = Callable[[PythonWalk, ast.Call, str], None]


def _check_eval(walk: PythonWalk, node: ast.Call, name: str) -> None:
    value = walk.first_arg(node)
    walk.report_origins(value, node, name)
    walk.is_unclear = True
    if not value.known and not value.taints & {Taint.DOWNLOAD, Taint.DECODED}:
        if not node.args:
            walk.report("EVAL_UNKNOWN", node, name)
        elif not _reads_script(walk, node.args[0]):
            walk.unclear_runs.append(node)
    if value.known and value.text:
        walk.read_nested(walk.located_arg(value, node.args[0]))


def _reads_script(walk: PythonWalk, node: ast.expr) -> bool:
    """Whether code is the content of a named file that this code did not write."""
    match node:
        case ast.Call(func=ast.Name(id="compile"), args=[first, *_]):
            return _reads_script(walk, first)
        case ast.Call(func=ast.Attribute(value=opened, attr="read")):
            path = walk.opened_path(opened)
        case ast.Call(func=ast.Attribute(value=owner, attr="read_text" | "read_bytes")):
            path = walk.names.evaluate_node(owner)
        case _:
            return False
    if not path.known or not path.text or walk.walker.read_written(path.text) != EMPTY:
        return False
    return classify_path(path.text, walk.walker.cwd, walk.walker.bounds) is PathKind.INSIDE


def _check_unpickle(walk: PythonWalk, node: ast.Call, name: str) -> None:
    """Report a loader that can run code, unless `SafeLoader` or `weights_only=True` stops that."""
    options = [ast.dump(item) for item in (*node.args[1:], *node.keywords)]
    if any("Safe" in text or ("weights_only" in text and "True" in text) for text in options):
        return
    downloaded = Taint.DOWNLOAD in walk.first_arg(node).taints
    walk.report("UNTRUSTED_LOAD" if downloaded else "UNTRUSTED_FILE", node, name)


def _check_shell(walk: PythonWalk, node: ast.Call, name: str) -> None:
    value = walk.first_arg(node, "command", "cmd", "args")
    walk.report_origins(value, node, name)
    module = name.partition(".")[0]
    if not value.known:
        walk.is_unclear = True
        walk.unclear_modules.add(module)
        if not value.text and not value.taints & _REPORTED and module not in PROCESS_MODULES:
            walk.unclear_runs.append(node)
    if value.text:
        location = walk.location._replace(via=(*walk.location.via, "python"))
        source = node.args[0] if node.args else node
        walk.walker.walk_shell(walk.located_arg(value, source), location)


def _check_process(walk: PythonWalk, node: ast.Call, name: str) -> None:
    """`subprocess.run` and its like: a list of words, or a text with `shell=True`."""
    if any(word.arg in {"input", "stdin", "executable", "env", None} for word in node.keywords):
        walk.is_unclear = True
    words = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "args")]
    if words and isinstance(words[0], ast.List | ast.Tuple):
        walk.judge_program(words[0].elts, node, name)
    elif name == "asyncio.create_subprocess_exec":
        walk.judge_program(node.args, node, name)
    else:
        _check_shell(walk, node, name)


def _check_spawn(walk: PythonWalk, node: ast.Call, name: str) -> None:
    """`os.execv(path, args)`, `os.spawnl(mode, path, ...)`."""
    items: list[ast.expr] = []
    for arg in node.args[1 if ".spawn" in name else 0 :]:
        words = arg.value if isinstance(arg, ast.Starred) else arg
        items.extend(words.elts if isinstance(words, ast.List | ast.Tuple) else [words])
    # The first of the words is the program's name for itself, not its path.
    walk.is_unclear = True
    walk.judge_program(items[:1] + items[2:], node, name)


def _check_terminal(walk: PythonWalk, node: ast.Call, name: str) -> None:
    """`pty.spawn(path)`: a shell on a terminal."""
    walk.report("PROXY_EXECUTION", node, name)
    words = node.args[0] if node.args else None
    items = words.elts if isinstance(words, ast.List | ast.Tuple) else node.args[:1]
    walk.judge_program(items, node, name)


def _method_owner(walk: PythonWalk, node: ast.Call) -> Value:
    """Return the object whose method is called."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else node
    return walk.names.evaluate_node(owner)


def _delete_own(walk: PythonWalk, node: ast.Call, _: str) -> None:
    path = _method_owner(walk, node)
    walk.report_effect(node, path, EffectKind.DELETE)
    if not path.text and not (isinstance(node.func, ast.Attribute) and is_self(node.func.value)):
        walk.unclear_deletions.append(node)


def _write_own(walk: PythonWalk, node: ast.Call, _: str) -> None:
    path = _method_owner(walk, node)
    walk.report_effect(node, path, EffectKind.WRITE)
    walk.record_write(path, node)


def _write_file(walk: PythonWalk, node: ast.Call, _: str) -> None:
    """`open(path, 'w').write(data)`, also through a variable."""
    if isinstance(node.func, ast.Attribute):
        walk.record_write(walk.opened_path(node.func.value), node)


def _open_file(walk: PythonWalk, node: ast.Call, _: str) -> None:
    modes = [*node.args[1:2], *(item.value for item in node.keywords if item.arg == "mode")]
    mode = walk.names.evaluate_node(modes[0]).text if modes else "r"
    kind = EffectKind.WRITE if set(mode) & set("wax+") else EffectKind.READ
    path = walk.first_arg(node, "file")
    walk.report_effect(node, path, kind, append="a" in mode)
    if kind is EffectKind.WRITE and path.text and walk.walker.read_written(path.text) == EMPTY:
        # What is written is not known until a `write` of it is seen.
        walk.walker.record_write(path.text, UNKNOWN)


def _copy_file(walk: PythonWalk, node: ast.Call, _: str) -> None:
    for arg, kind in zip(node.args, (EffectKind.READ, EffectKind.WRITE), strict=False):
        walk.report_effect(node, walk.names.evaluate_node(arg), kind)


def _delete_path(walk: PythonWalk, node: ast.Call, name: str) -> None:
    path, tree = walk.first_arg(node, "path"), name in _TREE_DELETERS
    walk.report_effect(node, path, EffectKind.DELETE, tree=tree)
    if not path.text:
        walk.unclear_deletions.append(node)


def _move_file(walk: PythonWalk, node: ast.Call, name: str) -> None:
    tree = name == "shutil.move"
    walk.report_effect(node, walk.first_arg(node, "src"), EffectKind.DELETE, tree=tree)
    _copy_file(walk, node, name)


def _check_chmod(walk: PythonWalk, node: ast.Call, _: str) -> None:
    mode = walk.names.evaluate_node(node.args[1]).text if len(node.args) > 1 else ""
    if mode.isdecimal() and int(mode[:9]) & 0o6000:
        walk.report("SETUID", node, walk.first_arg(node).text)


def _check_setuid(walk: PythonWalk, node: ast.Call, _: str) -> None:
    if walk.first_arg(node).text == "0":
        walk.report("ROOT_SHELL", node, "root")


def _check_request(walk: PythonWalk, node: ast.Call, name: str) -> None:
    """A request: report the hosts it reaches and the data it sends."""
    arguments = [*node.args, *(item.value for item in node.keywords)]
    values = [walk.names.evaluate_node(argument) for argument in arguments]
    hosts = find_hosts([value.text for value in values])
    taints = frozenset[Taint]().union(*(value.taints for value in values))
    is_login = any(value.text.startswith("https://") for value in values) and bool(hosts)
    content = [
        argument
        for argument in arguments
        if not (is_login and _is_login(walk, node, argument, hosts))
    ]
    contents = (walk.names.evaluate_node(argument).taints for argument in content)
    leaving = frozenset[Taint]().union(*contents) & PRIVATE_TAINTS
    file_sent = Taint.INPUT in taints and any(item.arg in _BODY_KEYWORDS for item in node.keywords)
    sent = check_sent_data(leaving, hosts, walk.context, data=file_sent)
    for rule, target in (*check_hosts(hosts, walk.context), *sent):
        walk.report(rule, node, target)
    if name.endswith("urlretrieve") and len(node.args) > 1:
        fetched = Value("", known=False, taints=frozenset({Taint.DOWNLOAD}))
        walk.walker.record_write(walk.names.evaluate_node(node.args[1]).text, fetched)


def _is_login(walk: PythonWalk, node: ast.Call, argument: ast.expr, hosts: list[str]) -> bool:
    """Report and return whether an argument logs in to a fixed host with one variable."""
    if not any(item.value is argument and item.arg in _LOGIN_KEYWORDS for item in node.keywords):
        return False
    if walk.names.evaluate_node(argument).taints & PRIVATE_TAINTS != {Taint.VARIABLE}:
        return False
    if isinstance(argument, ast.Dict):
        for key, value in zip(argument.keys, argument.values, strict=True):
            name = "" if key is None else walk.names.evaluate_node(key).text
            private = walk.names.evaluate_node(value).taints & PRIVATE_TAINTS
            if private and not _LOGIN_HEADER.search(name):
                return False
    walk.report("LOGIN_SENT", node, hosts[0])
    return True


def _check_send(walk: PythonWalk, node: ast.Call, _: str) -> None:
    leaving = walk.first_arg(node).taints & PRIVATE_TAINTS
    for rule, target in check_sent_data(leaving, [], walk.context, data=False):
        walk.report(rule, node, target)


PROCESS_MODULES = frozenset({"subprocess", "socket", "pty", "popen2", "commands"})
IMPORTERS = frozenset({"__import__", "importlib.import_module", "importlib.__import__"})
_REPORTED = frozenset({Taint.DOWNLOAD, Taint.DECODED})
_TREE_DELETERS = word_set(
    "shutil.rmtree dir_util.remove_tree distutils.dir_util.remove_tree"
    " tempfile.TemporaryDirectory._rmtree TemporaryDirectory._rmtree"
)
_LOGIN_KEYWORDS = frozenset({"headers", "auth"})
_LOGIN_HEADER = re.compile(r"(?i)authori[sz]ation|token|api-?key|-key$|^cookie$")
_BODY_KEYWORDS = frozenset({"data", "files", "json", "content"})
_CLIENTS = "requests httpx requests.session() requests.Session() httpx.Client()"
CALL_HANDLERS: dict[str, CallHandler] = {
    **dict.fromkeys(split_names("exec eval builtins.exec builtins.eval"), _check_eval),
    **dict.fromkeys(dotted_names("os", "system popen"), _check_shell),
    **dict.fromkeys(dotted_names("subprocess commands", "getoutput getstatusoutput"), _check_shell),
    **dict.fromkeys(
        dotted_names("asyncio subprocess asyncio.subprocess", "create_subprocess_shell"),
        _check_shell,
    ),
    **dict.fromkeys(
        dotted_names("subprocess", "run call check_call check_output Popen create_subprocess_exec")
        | dotted_names("asyncio", "create_subprocess_exec")
        | dotted_names("spawn distutils.spawn", "spawn"),
        _check_process,
    ),
    **dict.fromkeys(
        dotted_names("os", "execv execve execl execlp execvp execle execvpe execlpe posix_spawn")
        | dotted_names("os", "posix_spawnp spawnl spawnv spawnlp spawnvp spawnle spawnve")
        | dotted_names("os", "spawnvpe spawnlpe"),
        _check_spawn,
    ),
    "pty.spawn": _check_terminal,
    **dict.fromkeys(
        dotted_names("pickle cPickle dill cloudpickle", "loads load Unpickler")
        | word_set("marshal.loads joblib.load torch.load jsonpickle.decode")
        | dotted_names("yaml", "load unsafe_load"),
        _check_unpickle,
    ),
    **dict.fromkeys(_TREE_DELETERS, _delete_path),
    **dict.fromkeys(dotted_names("os", "remove unlink rmdir removedirs"), _delete_path),
    **dict.fromkeys(sorted(OPENERS), _open_file),
    **dict.fromkeys(dotted_names("shutil", "copy copyfile copy2 copytree"), _copy_file),
    **dict.fromkeys(dotted_names("os", "link symlink"), _copy_file),
    **dict.fromkeys(["shutil.move", "os.rename", "os.replace", "os.renames"], _move_file),
    "os.chmod": _check_chmod,
    **dict.fromkeys(dotted_names("os", "setuid setgid seteuid setresuid"), _check_setuid),
    **dict.fromkeys(
        dotted_names(_CLIENTS, "get post put patch delete request head"), _check_request
    ),
    **dict.fromkeys(dotted_names("urllib.request", "urlopen Request urlretrieve"), _check_request),
    "urllib2.urlopen": _check_request,
}
METHOD_HANDLERS: dict[str, CallHandler] = {
    "write": _write_file,
    **dict.fromkeys(split_names("unlink rmdir"), _delete_own),
    **dict.fromkeys(split_names("write_text write_bytes"), _write_own),
    **dict.fromkeys(
        split_names("read_text read_bytes"),
        lambda walk, node, _: walk.report_effect(node, _method_owner(walk, node), EffectKind.READ),
    ),
    **dict.fromkeys(split_names("sendall send sendto storbinary sendmail"), _check_send),
}
_RUNNING = frozenset({_check_eval, _check_shell, _check_process, _check_spawn, _check_terminal})
# Functions by what they do with the text that they are given.
HANDLER_KINDS = {
    name: "run" if handler in _RUNNING else "delete"
    for name, handler in CALL_HANDLERS.items()
    if handler in _RUNNING or handler is _delete_path
}

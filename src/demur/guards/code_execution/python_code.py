"""Judge Python by its syntax tree: the processes, files, requests and evaluated text of its calls.

Names are followed in the order of lines, without branches: a call is judged by the values that the
lines above it assigned last.
"""

import ast
from collections.abc import Callable, Iterator

from demur.guards.code_execution.call import (
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
from demur.guards.code_execution.network_checks import check_hosts, check_sent_data, find_hosts
from demur.guards.code_execution.other_languages import read_calls
from demur.guards.code_execution.python_reach import (
    PythonReach,
    constant_texts,
    is_code,
    is_command,
    takes_hidden_ways,
)
from demur.guards.code_execution.python_values import PythonValues
from demur.guards.static.python_flow import is_self
from demur.guards.static.python_names import collect_names, dotted_names
from demur.guards.static.python_syntax import parse_python
from demur.guards.static.source_text import SourceText, split_names, word_set

OPENERS = frozenset({"open", "io.open", "codecs.open"})


class PythonWalk:
    """The state that call handlers share."""

    def __init__(self, text: str, walker: Walker, location: Location) -> None:
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
            plain = name.removeprefix("builtins.").removeprefix("__builtins__.")
            parts = plain.replace("posix.", "os.").split(".")
            # `shutil.os.system` is `os.system`.
            for known in (plain, ".".join(parts[-2:])):
                if known in _FUNCTIONS or known in _IMPORTERS:
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
            read_python(arg, self.walker, self.location)
        else:
            hit = CommandHit("NESTED_TOO_DEEP")
            self.walker.report(hit, arg.start, arg.end, "python", self.location)

    def read_guess(self, arg: Arg, location: Location) -> None:
        """Judge code that nothing is known to run."""
        if location.depth < MAX_DEPTH:
            read_python(arg, self.walker, location)

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
        if node.args:
            walk.unclear_runs.append(node)
        else:
            walk.report("EVAL_UNKNOWN", node, name)
    if value.known and value.text:
        walk.read_nested(walk.located_arg(value, node.args[0]))


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
        if not value.text and not value.taints & _REPORTED and module not in _PROCESSES:
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
    # The words begin with the name that the program is told, not with its path.
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
    walk.report_effect(node, walk.first_arg(node, "file"), kind, append="a" in mode)


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
    leaving = taints & {Taint.SECRET, Taint.ENVIRONMENT}
    file_sent = Taint.INPUT in taints and any(item.arg in _BODY_KEYWORDS for item in node.keywords)
    sent = check_sent_data(leaving, hosts, walk.context, data=file_sent)
    for rule, target in (*check_hosts(hosts, walk.context), *sent):
        walk.report(rule, node, target)
    if name.endswith("urlretrieve") and len(node.args) > 1:
        fetched = Value("", known=False, taints=frozenset({Taint.DOWNLOAD}))
        walk.walker.record_write(walk.names.evaluate_node(node.args[1]).text, fetched)


def _check_send(walk: PythonWalk, node: ast.Call, _: str) -> None:
    leaving = walk.first_arg(node).taints & {Taint.SECRET, Taint.ENVIRONMENT}
    for rule, target in check_sent_data(leaving, [], walk.context, data=False):
        walk.report(rule, node, target)


_REPORTED = frozenset({Taint.DOWNLOAD, Taint.DECODED})
_TREE_DELETERS = word_set(
    "shutil.rmtree dir_util.remove_tree distutils.dir_util.remove_tree"
    " tempfile.TemporaryDirectory._rmtree TemporaryDirectory._rmtree"
)
_BODY_KEYWORDS = frozenset({"data", "files", "json", "content"})
_CLIENTS = "requests httpx requests.session() requests.Session() httpx.Client()"
_FUNCTIONS: dict[str, CallHandler] = {
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
_METHODS: dict[str, CallHandler] = {
    "write": _write_file,
    **dict.fromkeys(split_names("unlink rmdir"), _delete_own),
    **dict.fromkeys(split_names("write_text write_bytes"), _write_own),
    **dict.fromkeys(
        split_names("read_text read_bytes"),
        lambda walk, node, _: walk.report_effect(node, _method_owner(walk, node), EffectKind.READ),
    ),
    **dict.fromkeys(split_names("sendall send sendto storbinary sendmail"), _check_send),
}


_MAX_NODES = 20_000
_NATIVE = frozenset({"ctypes", "cffi", "_ctypes"})
_PROCESSES = frozenset({"subprocess", "socket", "pty", "popen2", "commands"})
_IMPORTERS = frozenset({"__import__", "importlib.import_module", "importlib.__import__"})
_MAX_DELETERS = 50
_RUNNING = frozenset({_check_eval, _check_shell, _check_process, _check_spawn, _check_terminal})
# Functions by what they do with the text that they are given.
_HANDLER_KINDS = {
    name: "run" if handler in _RUNNING else "delete"
    for name, handler in _FUNCTIONS.items()
    if handler in _RUNNING or handler is _delete_path
}


def read_python(arg: Arg, walker: Walker, location: Location) -> None:
    """Judge `arg` as Python; text that does not parse is judged by its calls alone."""
    tree = parse_python(arg.text)
    inner = location.enter(arg)
    if tree is None:
        walker.report(CommandHit("UNREADABLE", "python"), 0, len(arg.text), "python", inner)
        read_calls(arg, walker, location)
        return
    walk = PythonWalk(arg.text, walker, inner)
    _judge_module(tree, walk)
    _judge_reached_texts(tree, walk)


def _judge_reached_texts(tree: ast.Module, walk: PythonWalk) -> None:
    """Judge the texts that may reach a function which runs or deletes what it is given."""
    names = walk.names.static
    nodes = list(ast.walk(tree))[:_MAX_NODES]
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and id(node) not in called:
            walk.is_unclear |= _HANDLER_KINDS.get(walk.function_name(node)) == "run"
    location = walk.location._replace(guessed=True)
    if walk.is_unclear or takes_hidden_ways(nodes):
        for text, node in constant_texts(tree, names):
            arg = walk.located_arg(Value(text), node)
            if is_code(text):
                walk.read_guess(arg, location)
            elif is_command(text):
                walk.walker.walk_shell(arg, location)
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    passed = [call for call in calls if _passes_deleter(call, walk)]
    deleters = [*walk.unclear_deletions, *passed]
    if not deleters and not walk.unclear_runs:
        return
    reach = PythonReach(tree)
    _judge_reached_paths(deleters, reach, walk, location)
    for call in walk.unclear_runs:
        if not reach.reaches_constants(call.args[:1] or [call]):
            walk.report("CODE_UNKNOWN", call, walk.function_name(call.func))


def _passes_deleter(node: ast.Call, walk: PythonWalk) -> bool:
    """Whether a call is given a function that deletes files, or calls one by a lookup."""
    parts = [*node.args, *(word.value for word in node.keywords)]
    return any(_HANDLER_KINDS.get(walk.function_name(part)) == "delete" for part in parts)


def _judge_reached_paths(
    deleters: list[ast.Call], reach: PythonReach, walk: PythonWalk, location: Location
) -> None:
    for node in deleters[:_MAX_DELETERS]:
        start, end = walk.source.node_span(node)
        for root in reach.reached_from([node]):
            for text, _ in constant_texts(root, walk.names.static):
                if text.startswith(("/", "~")):
                    target = Arg(text, start, end)
                    effect = FileEffect(EffectKind.DELETE, target, tree=True)
                    walk.walker.report_effect(effect, start, end, "python", location)


def _judge_module(tree: ast.Module, walk: PythonWalk) -> None:
    """Judge a module: imports first, then each statement in the order of lines."""
    walk.names.static = collect_names(tree, ast.walk(tree))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)][:_MAX_NODES]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for imported in imports:
        walk.names.modules.update(_imported_names(imported))
    for node in nodes:
        _bind_names(node, walk)
    for call in calls:
        _judge_call(call, walk)
    _report_socket_shell(calls, walk)
    for imported in imports:
        names = [name.name for name in imported.names]
        if isinstance(imported, ast.ImportFrom):
            names = [imported.module or ""]
        for name in names:
            _report_import(name.partition(".")[0], imported, walk, dynamic=False)


def _imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, each with its dotted name."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name


def _bind_names(node: ast.expr | ast.stmt, walk: PythonWalk) -> None:
    """Record the values that names get by assignment, `with` or `for`."""
    for target, value in _bound_values(node):
        if isinstance(target, ast.Name):
            walk.names.values[target.id] = walk.names.evaluate_node(value)
            walk.open_files[target.id] = walk.opened_path(value)
            if isinstance(value, ast.Call | ast.Attribute):
                walk.names.modules[target.id] = walk.names.dotted_name(value)


def _bound_values(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            match target, node.value:
                case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                    yield from zip(targets, values, strict=False)
                case _:
                    yield target, node.value
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        yield node.target, ast.BinOp(node.target, node.op, node.value)
    elif isinstance(node, ast.NamedExpr | ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.With | ast.AsyncWith):
        yield from ((item.optional_vars, item.context_expr) for item in node.items)
    elif isinstance(node, ast.For):
        yield node.target, node.iter


def _judge_call(node: ast.Call, walk: PythonWalk) -> None:
    name = walk.function_name(node.func)
    walk.called_modules.add(name.partition(".")[0].removesuffix("()"))
    if name in _IMPORTERS and node.args:
        module = walk.names.evaluate_node(node.args[0]).text.partition(".")[0]
        _report_import(module, node, walk, dynamic=True)
    _, dot, method = name.rpartition(".")
    if handler := _FUNCTIONS.get(name) or (_METHODS.get(method) if dot else None):
        handler(walk, node, name)


def _report_import(
    module: str, node: ast.expr | ast.stmt, walk: PythonWalk, *, dynamic: bool
) -> None:
    """Report a module that starts processes or reaches native memory."""
    if module in walk.walker.config.imports:
        return
    if module in _NATIVE:
        walk.report("NATIVE_CODE", node, module)
    elif module in _PROCESSES:
        plain = module in walk.called_modules and module not in walk.unclear_modules and not dynamic
        walk.report("PROCESS_MODULE" if plain else "PROCESS_IMPORT", node, module)


def _report_socket_shell(calls: list[ast.Call], walk: PythonWalk) -> None:
    """Report a socket that is connected to a shell's input and output."""
    named = [(walk.names.dotted_name(call.func), call) for call in calls]
    sockets = [(name, call) for name, call in named if name.startswith("socket.")]
    ends = (".connect", ".create_connection")
    connects = [call for name, call in sockets if name.endswith(ends)]
    if not connects:
        return
    walk.unclear_modules.add("socket")
    inputs = [item.value for call in calls for item in call.keywords if item.arg == "stdin"]
    fed = any(walk.names.dotted_name(value).startswith("socket.") for value in inputs)
    if fed or any(name in {"os.dup2", "pty.spawn"} for name, _ in named):
        walk.report("REVERSE_SHELL", connects[0], "socket")

"""What Python functions that matter do, one handler each: run, start, delete, write, send."""

import ast
from collections.abc import Callable, Iterator

from demur.guards.code_execution.effects import EffectKind
from demur.guards.code_execution.names import split_names
from demur.guards.code_execution.python_reading import OPENERS, PythonWalk
from demur.guards.code_execution.value import Taint, TextValue
from demur.guards.code_execution.verbs.addresses import find_hosts, check_hosts, check_sent_data

__all__ = ["find_handler"]

CallHandler = Callable[[PythonWalk, ast.Call, str], None]


def _check_eval(walk: PythonWalk, node: ast.Call, name: str) -> None:
    value = walk.first_arg(node)
    walk.report_origins(value, node, name)
    if not value.known and not value.taints & {Taint.DOWNLOAD, Taint.DECODED}:
        walk.report("EVAL_UNKNOWN", node, name)
    if value.known and value.text:
        walk.read_nested(walk.located_arg(value, node.args[0]), walk.location)


def _check_unpickle(walk: PythonWalk, node: ast.Call, name: str) -> None:
    given: list[ast.expr | ast.keyword] = [*node.args[1:], *node.keywords]
    if any(_is_safe_loader(item) for item in given):
        return
    downloaded = Taint.DOWNLOAD in walk.first_arg(node).taints
    walk.report("UNTRUSTED_LOAD" if downloaded else "UNTRUSTED_FILE", node, name)


def _is_safe_loader(given: ast.expr | ast.keyword) -> bool:
    """Whether an argument makes a loader safe: `SafeLoader`, `weights_only=True`."""
    text = ast.dump(given)
    return "Safe" in text or ("weights_only" in text and "True" in text)


def _check_shell(walk: PythonWalk, node: ast.Call, name: str) -> None:
    value = walk.first_arg(node, "command", "cmd")
    walk.report_origins(value, node, name)
    if not value.known:
        walk.unclear_modules.add(name.partition(".")[0])
    if value.text and node.args:
        frame = walk.location._replace(via=(*walk.location.via, "python"))
        walk.walker.walk_shell(walk.located_arg(value, node.args[0]), frame)


def _check_process(walk: PythonWalk, node: ast.Call, name: str) -> None:
    """`subprocess.run` and its like: a list of words, or a text with `walk_shell=True`."""
    if node.args and isinstance(node.args[0], ast.List | ast.Tuple):
        walk.judge_program(node.args[0].elts, node, name)
    else:
        _check_shell(walk, node, name)


def _check_spawn(walk: PythonWalk, node: ast.Call, name: str) -> None:
    """`os.execv(path, args)`, `os.spawnl(mode, path, ...)`."""
    items: list[ast.expr] = []
    for arg in node.args[1 if "spawn" in name else 0 :]:
        items.extend(arg.elts if isinstance(arg, ast.List | ast.Tuple) else [arg])
    walk.judge_program(items, node, name)


def _check_terminal(walk: PythonWalk, node: ast.Call, name: str) -> None:
    """`pty.spawn(path)`: a shell on a terminal."""
    walk.report("PROXY_EXECUTION", node, name)
    walk.judge_program(node.args[:1], node, name)


def _delete_tree(walk: PythonWalk, node: ast.Call, _: str) -> None:
    walk.report_effect(node, walk.first_arg(node, "path"), EffectKind.DELETE, tree=True)


def _delete_file(walk: PythonWalk, node: ast.Call, _: str) -> None:
    walk.report_effect(node, walk.first_arg(node, "path"), EffectKind.DELETE)


def _method_owner(walk: PythonWalk, node: ast.Call) -> TextValue:
    """Return the object whose method is called."""
    return walk.names.evaluate_node(
        node.func.value if isinstance(node.func, ast.Attribute) else node
    )


def _delete_own(walk: PythonWalk, node: ast.Call, _: str) -> None:
    walk.report_effect(node, _method_owner(walk, node), EffectKind.DELETE)


def _write_own(walk: PythonWalk, node: ast.Call, _: str) -> None:
    path = _method_owner(walk, node)
    walk.report_effect(node, path, EffectKind.WRITE)
    walk.record_write(path, node)


def _read_own(walk: PythonWalk, node: ast.Call, _: str) -> None:
    walk.report_effect(node, _method_owner(walk, node), EffectKind.READ)


def _write_file(walk: PythonWalk, node: ast.Call, _: str) -> None:
    """`open(path, 'w').write(data)`, also through a variable."""
    if isinstance(node.func, ast.Attribute):
        walk.record_write(walk.opened_path(node.func.value), node)


def _open_file(walk: PythonWalk, node: ast.Call, _: str) -> None:
    given = [*node.args[1:2], *(item.value for item in node.keywords if item.arg == "mode")]
    mode = walk.names.evaluate_node(given[0]).text if given else "r"
    kind = EffectKind.WRITE if set(mode) & set("wax+") else EffectKind.READ
    walk.report_effect(node, walk.first_arg(node, "file"), kind, adds="a" in mode)


def _copy_file(walk: PythonWalk, node: ast.Call, _: str) -> None:
    for arg, kind in zip(node.args, (EffectKind.READ, EffectKind.WRITE), strict=False):
        walk.report_effect(node, walk.names.evaluate_node(arg), kind)


def _check_chmod(walk: PythonWalk, node: ast.Call, _: str) -> None:
    mode = walk.names.evaluate_node(node.args[1]).text if len(node.args) > 1 else ""
    if mode.isdecimal() and int(mode[:9]) & 0o6000:
        walk.report("SETUID", node, walk.first_arg(node).text)


def _check_setuid(walk: PythonWalk, node: ast.Call, _: str) -> None:
    if walk.first_arg(node).text == "0":
        walk.report("ROOT_SHELL", node, "root")


def _check_request(walk: PythonWalk, node: ast.Call, name: str) -> None:
    """A request: report the hosts it reaches and the data it sends."""
    given = [*node.args, *(item.value for item in node.keywords)]
    values = [walk.names.evaluate_node(item) for item in given]
    hosts = find_hosts([value.text for value in values])
    taints = frozenset[Taint]().union(*(value.taints for value in values))
    leaving = taints & {Taint.SECRET, Taint.ENVIRONMENT}
    file_sent = Taint.INPUT in taints and any(item.arg in _BODY_KEYWORDS for item in node.keywords)
    for sight in _request_hits(hosts, leaving, walk, data=file_sent):
        walk.report(sight[0], node, sight[1])
    if name.endswith("urlretrieve") and len(node.args) > 1:
        fetched = TextValue("", known=False, taints=frozenset({Taint.DOWNLOAD}))
        walk.walker.record_write(walk.names.evaluate_node(node.args[1]).text, fetched)


def _request_hits(
    hosts: list[str], taints: frozenset[Taint], walk: PythonWalk, *, data: bool
) -> Iterator[tuple[str, str]]:
    yield from check_hosts(hosts, walk.context)
    yield from check_sent_data(taints, hosts, walk.context, data=data)


def _check_send(walk: PythonWalk, node: ast.Call, _: str) -> None:
    leaving = walk.first_arg(node).taints & {Taint.SECRET, Taint.ENVIRONMENT}
    for rule, target in check_sent_data(leaving, [], walk.context, data=False):
        walk.report(rule, node, target)


def _dotted_names(prefixes: str, members: str) -> list[str]:
    return [
        f"{prefix}.{member}" for prefix in split_names(prefixes) for member in split_names(members)
    ]


_BODY_KEYWORDS = frozenset({"data", "files", "json", "content"})
_CLIENTS = "requests httpx requests.session() requests.Session() httpx.Client()"
_FUNCTIONS: dict[str, CallHandler] = {
    **dict.fromkeys(split_names("exec eval builtins.exec builtins.eval"), _check_eval),
    **dict.fromkeys(_dotted_names("os", "system popen"), _check_shell),
    **dict.fromkeys(
        _dotted_names("subprocess commands", "getoutput getstatusoutput"), _check_shell
    ),
    **dict.fromkeys(_dotted_names("asyncio", "create_subprocess_shell"), _check_shell),
    **dict.fromkeys(
        _dotted_names("subprocess", "run call check_call check_output Popen"), _check_process
    ),
    **dict.fromkeys(
        _dotted_names("os", "execv execve execl execlp execvp execle posix_spawn"), _check_spawn
    ),
    **dict.fromkeys(
        _dotted_names("os", "spawnl spawnv spawnlp spawnvp spawnle spawnve"), _check_spawn
    ),
    "pty.spawn": _check_terminal,
    **dict.fromkeys(
        _dotted_names("pickle cPickle dill cloudpickle", "loads load Unpickler"), _check_unpickle
    ),
    **dict.fromkeys(
        split_names(
            "marshal.loads joblib.load torch.load yaml.load yaml.unsafe_load jsonpickle.decode"
        ),
        _check_unpickle,
    ),
    "shutil.rmtree": _delete_tree,
    **dict.fromkeys(_dotted_names("os", "remove unlink rmdir removedirs"), _delete_file),
    **dict.fromkeys(sorted(OPENERS), _open_file),
    **dict.fromkeys(_dotted_names("shutil", "copy copyfile copy2 copytree move"), _copy_file),
    **dict.fromkeys(_dotted_names("os", "rename replace link symlink"), _copy_file),
    "os.chmod": _check_chmod,
    **dict.fromkeys(_dotted_names("os", "setuid setgid seteuid setresuid"), _check_setuid),
    **dict.fromkeys(
        _dotted_names(_CLIENTS, "get post put patch delete request head"), _check_request
    ),
    **dict.fromkeys(_dotted_names("urllib.request", "urlopen Request urlretrieve"), _check_request),
    "urllib2.urlopen": _check_request,
}
_METHODS: dict[str, CallHandler] = {
    "write": _write_file,
    "unlink": _delete_own,
    **dict.fromkeys(split_names("write_text write_bytes"), _write_own),
    **dict.fromkeys(split_names("read_text read_bytes"), _read_own),
    **dict.fromkeys(split_names("sendall send sendto storbinary sendmail"), _check_send),
}


def find_handler(name: str) -> CallHandler | None:
    """Return the handler of the function `name`, or of the method it ends with."""
    found = _FUNCTIONS.get(name)
    if found is None and "." in name:
        return _METHODS.get(name.rpartition(".")[2])
    return found

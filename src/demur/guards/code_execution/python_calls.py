"""What Python functions that matter do, one handler each: run, start, delete, write, send."""

import ast
from collections.abc import Callable, Iterator

from demur.guards.code_execution.effects import Kind
from demur.guards.code_execution.names import names
from demur.guards.code_execution.python_reading import OPENERS, Reading
from demur.guards.code_execution.value import Taint, Value
from demur.guards.code_execution.verbs.addresses import hosts_of, reached, sent

__all__ = ["handler_of"]

Handler = Callable[[Reading, ast.Call, str], None]


def _evaluate(reading: Reading, node: ast.Call, name: str) -> None:
    value = reading.first(node)
    reading.origins(value, node, name)
    if not value.known and not value.taints & {Taint.DOWNLOAD, Taint.DECODED}:
        reading.see("EVAL_UNKNOWN", node, name)
    if value.known and value.text:
        reading.again(reading.arg(value, node.args[0]), reading.frame)


def _unpickle(reading: Reading, node: ast.Call, name: str) -> None:
    given: list[ast.expr | ast.keyword] = [*node.args[1:], *node.keywords]
    if any(_is_safe(item) for item in given):
        return
    downloaded = Taint.DOWNLOAD in reading.first(node).taints
    reading.see("UNTRUSTED_LOAD" if downloaded else "UNTRUSTED_FILE", node, name)


def _is_safe(given: ast.expr | ast.keyword) -> bool:
    """Whether an argument makes a loader safe: `SafeLoader`, `weights_only=True`."""
    text = ast.dump(given)
    return "Safe" in text or ("weights_only" in text and "True" in text)


def _shell(reading: Reading, node: ast.Call, name: str) -> None:
    value = reading.first(node, "command", "cmd")
    reading.origins(value, node, name)
    if not value.known:
        reading.unseen.add(name.partition(".")[0])
    if value.text and node.args:
        frame = reading.frame._replace(via=(*reading.frame.via, "python"))
        reading.host.shell(reading.arg(value, node.args[0]), frame)


def _process(reading: Reading, node: ast.Call, name: str) -> None:
    """`subprocess.run` and its like: a list of words, or a text with `shell=True`."""
    if node.args and isinstance(node.args[0], ast.List | ast.Tuple):
        reading.start(node.args[0].elts, node, name)
    else:
        _shell(reading, node, name)


def _spawn(reading: Reading, node: ast.Call, name: str) -> None:
    """`os.execv(path, args)`, `os.spawnl(mode, path, ...)`."""
    items: list[ast.expr] = []
    for arg in node.args[1 if "spawn" in name else 0 :]:
        items.extend(arg.elts if isinstance(arg, ast.List | ast.Tuple) else [arg])
    reading.start(items, node, name)


def _terminal(reading: Reading, node: ast.Call, name: str) -> None:
    """`pty.spawn(path)`: a shell on a terminal."""
    reading.see("PROXY_EXECUTION", node, name)
    reading.start(node.args[:1], node, name)


def _delete_tree(reading: Reading, node: ast.Call, _: str) -> None:
    reading.touch(node, reading.first(node, "path"), Kind.DELETE, tree=True)


def _delete(reading: Reading, node: ast.Call, _: str) -> None:
    reading.touch(node, reading.first(node, "path"), Kind.DELETE)


def _own(reading: Reading, node: ast.Call) -> Value:
    """Return the object whose method is called."""
    return reading.names.value(node.func.value if isinstance(node.func, ast.Attribute) else node)


def _delete_own(reading: Reading, node: ast.Call, _: str) -> None:
    reading.touch(node, _own(reading, node), Kind.DELETE)


def _write_own(reading: Reading, node: ast.Call, _: str) -> None:
    path = _own(reading, node)
    reading.touch(node, path, Kind.WRITE)
    reading.keep(path, node)


def _read_own(reading: Reading, node: ast.Call, _: str) -> None:
    reading.touch(node, _own(reading, node), Kind.READ)


def _write(reading: Reading, node: ast.Call, _: str) -> None:
    """`open(path, 'w').write(data)`, also through a variable."""
    if isinstance(node.func, ast.Attribute):
        reading.keep(reading.opened_by(node.func.value), node)


def _open(reading: Reading, node: ast.Call, _: str) -> None:
    given = [*node.args[1:2], *(item.value for item in node.keywords if item.arg == "mode")]
    mode = reading.names.value(given[0]).text if given else "r"
    kind = Kind.WRITE if set(mode) & set("wax+") else Kind.READ
    reading.touch(node, reading.first(node, "file"), kind, adds="a" in mode)


def _copy(reading: Reading, node: ast.Call, _: str) -> None:
    for arg, kind in zip(node.args, (Kind.READ, Kind.WRITE), strict=False):
        reading.touch(node, reading.names.value(arg), kind)


def _chmod(reading: Reading, node: ast.Call, _: str) -> None:
    mode = reading.names.value(node.args[1]).text if len(node.args) > 1 else ""
    if mode.isdecimal() and int(mode[:9]) & 0o6000:
        reading.see("SETUID", node, reading.first(node).text)


def _become(reading: Reading, node: ast.Call, _: str) -> None:
    if reading.first(node).text == "0":
        reading.see("ROOT_SHELL", node, "root")


def _request(reading: Reading, node: ast.Call, name: str) -> None:
    """A request: report the hosts it reaches and the data it sends."""
    given = [*node.args, *(item.value for item in node.keywords)]
    values = [reading.names.value(item) for item in given]
    hosts = hosts_of([value.text for value in values])
    taints = frozenset[Taint]().union(*(value.taints for value in values))
    leaving = taints & {Taint.SECRET, Taint.ENVIRONMENT}
    file_sent = Taint.INPUT in taints and any(item.arg in _BODIES for item in node.keywords)
    for sight in _said(hosts, leaving, reading, data=file_sent):
        reading.see(sight[0], node, sight[1])
    if name.endswith("urlretrieve") and len(node.args) > 1:
        fetched = Value("", known=False, taints=frozenset({Taint.DOWNLOAD}))
        reading.host.wrote(reading.names.value(node.args[1]).text, fetched)


def _said(
    hosts: list[str], taints: frozenset[Taint], reading: Reading, *, data: bool
) -> Iterator[tuple[str, str]]:
    yield from reached(hosts, reading.around)
    yield from sent(taints, hosts, reading.around, data=data)


def _send(reading: Reading, node: ast.Call, _: str) -> None:
    leaving = reading.first(node).taints & {Taint.SECRET, Taint.ENVIRONMENT}
    for rule, target in sent(leaving, [], reading.around, data=False):
        reading.see(rule, node, target)


def _each(prefixes: str, members: str) -> list[str]:
    return [f"{prefix}.{member}" for prefix in names(prefixes) for member in names(members)]


_BODIES = frozenset({"data", "files", "json", "content"})
_CLIENTS = "requests httpx requests.session() requests.Session() httpx.Client()"
_FUNCTIONS: dict[str, Handler] = {
    **dict.fromkeys(names("exec eval builtins.exec builtins.eval"), _evaluate),
    **dict.fromkeys(_each("os", "system popen"), _shell),
    **dict.fromkeys(_each("subprocess commands", "getoutput getstatusoutput"), _shell),
    **dict.fromkeys(_each("asyncio", "create_subprocess_shell"), _shell),
    **dict.fromkeys(_each("subprocess", "run call check_call check_output Popen"), _process),
    **dict.fromkeys(_each("os", "execv execve execl execlp execvp execle posix_spawn"), _spawn),
    **dict.fromkeys(_each("os", "spawnl spawnv spawnlp spawnvp spawnle spawnve"), _spawn),
    "pty.spawn": _terminal,
    **dict.fromkeys(_each("pickle cPickle dill cloudpickle", "loads load Unpickler"), _unpickle),
    **dict.fromkeys(
        names("marshal.loads joblib.load torch.load yaml.load yaml.unsafe_load jsonpickle.decode"),
        _unpickle,
    ),
    "shutil.rmtree": _delete_tree,
    **dict.fromkeys(_each("os", "remove unlink rmdir removedirs"), _delete),
    **dict.fromkeys(sorted(OPENERS), _open),
    **dict.fromkeys(_each("shutil", "copy copyfile copy2 copytree move"), _copy),
    **dict.fromkeys(_each("os", "rename replace link symlink"), _copy),
    "os.chmod": _chmod,
    **dict.fromkeys(_each("os", "setuid setgid seteuid setresuid"), _become),
    **dict.fromkeys(_each(_CLIENTS, "get post put patch delete request head"), _request),
    **dict.fromkeys(_each("urllib.request", "urlopen Request urlretrieve"), _request),
    "urllib2.urlopen": _request,
}
_METHODS: dict[str, Handler] = {
    "write": _write,
    "unlink": _delete_own,
    **dict.fromkeys(names("write_text write_bytes"), _write_own),
    **dict.fromkeys(names("read_text read_bytes"), _read_own),
    **dict.fromkeys(names("sendall send sendto storbinary sendmail"), _send),
}


def handler_of(name: str) -> Handler | None:
    """Return the handler of the function `name`, or of the method it ends with."""
    found = _FUNCTIONS.get(name)
    if found is None and "." in name:
        return _METHODS.get(name.rpartition(".")[2])
    return found

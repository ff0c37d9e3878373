"""Resolve the names of one Python file to dotted names, and list the functions that matter.

`PythonNames.dotted_path` answers `os.system` for every way that a file takes to it: imports,
aliases, `getattr`, `__import__`. Builtins come without a module. It follows the text and runs
nothing.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from demur.guards.static.python_syntax import ConstantFolder, FoldedConstant
from demur.guards.static.source_text import word_set


def dotted_names(modules: str, members: str) -> frozenset[str]:
    """Return each of `members` in each of `modules`; both are lists of words."""
    return frozenset(f"{module}.{name}" for module in modules.split() for name in members.split())


EXECUTORS = frozenset({"eval", "exec", "six.exec_", "code.InteractiveInterpreter.runsource"})
# Functions that pass their first argument to a shell.
SHELLS = (
    dotted_names("os", "popen system")
    | dotted_names("commands subprocess", "getoutput getstatusoutput")
    | {"asyncio.create_subprocess_shell"}
)
PROCESSES = (
    SHELLS
    | dotted_names("subprocess", "Popen call check_call check_output run")
    | dotted_names("os", "execl execle execlp execlpe execv execve execvp execvpe")
    | dotted_names("os", "spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe")
    | dotted_names("os", "startfile posix_spawn posix_spawnp")
    | dotted_names("pexpect", "run spawn")
    | {"asyncio.create_subprocess_exec", "pty.spawn"}
)
UNPICKLERS = (
    dotted_names("pickle cPickle _pickle dill cloudpickle marshal", "load loads Unpickler")
    | dotted_names("yaml", "full_load load load_all unsafe_load unsafe_load_all")
    | {"jsonpickle.decode", "joblib.load", "shelve.open", "torch.load", "pandas.read_pickle"}
)
DECODERS = (
    dotted_names("base64", "a85decode b16decode b32decode b64decode b85decode z85decode")
    | dotted_names("base64", "decodebytes decodestring standard_b64decode urlsafe_b64decode")
    | dotted_names("binascii", "a2b_base64 a2b_hex a2b_uu unhexlify")
    | dotted_names("bytes bytearray", "fromhex")
    | dotted_names("bz2 gzip lzma zlib brotli zstandard", "decompress")
    | {"codecs.decode"}
)
READERS = frozenset({"open", "io.open", "codecs.open", "os.open", "sqlite3.connect"}) | (
    dotted_names("shutil", "copy copy2 copyfile copytree move make_archive")
)
WALKERS = dotted_names("os", "listdir scandir walk") | dotted_names("glob", "glob iglob")
# What tells one machine or person from another.
HOST_FACTS = (
    dotted_names("platform", "node platform uname")
    | dotted_names("socket", "getfqdn gethostname")
    | {"getpass.getuser", "os.getlogin", "os.uname", "uuid.getnode"}
)
# The screen, the camera, the microphone and the clipboard.
CAPTURES = (
    dotted_names("PIL.ImageGrab pyscreenshot", "grab grabclipboard")
    | dotted_names("pyperclip clipboard", "paste")
    | {"pyautogui.screenshot", "mss.mss", "cv2.VideoCapture", "sounddevice.rec"}
    | {"win32clipboard.GetClipboardData", "pyaudio.PyAudio"}
)
ENVIRONMENTS = frozenset({"os.environ", "os.environb"})
TOKENS = frozenset({"os.getenv", "os.environ.get", "os.environ.pop", "os.environ.__getitem__"})
# The result of these does not carry the origin of their arguments.
OPAQUE_BUILTINS = frozenset({"len", "isinstance", "hash", "bool", "print", "id", "type", "hasattr"})
WIPERS = frozenset({"shutil.rmtree", "os.removedirs", "send2trash.send2trash"})

NETWORK = (
    "aiohttp",
    "asyncio.open_connection",
    "boto3",
    "dropbox",
    "ftplib",
    "http.client",
    "httplib",
    "httpx",
    "imaplib",
    "paramiko",
    "poplib",
    "pysftp",
    "pycurl",
    "requests",
    "smtplib",
    "socket",
    "socketserver",
    "telnetlib",
    "urllib.request",
    "urllib2",
    "urllib3",
    "websocket",
    "websockets",
    "xmlrpc.client",
)
# Functions that stay on this machine or only convert addresses.
_LOCAL = frozenset({"socket.socketpair", "socket.gethostname", "socket.inet_aton", "socket.ntohs"})
# Methods of a client or connection that send data.
SENDERS = word_set(
    "connect_ex delete execute get gethostbyname head patch post publish put request send"
    " send_bytes send_message sendall sendmail sendto stor storbinary storlines stream urlopen"
    " urlretrieve Request"
)

# Paths of private keys, tokens and stored logins.
SECRET_PLACE = re.compile(
    r"\.ssh(?:/|\\|$)|\bid_(?:rsa|dsa|ecdsa|ed25519)\b(?!\.pub)|\.aws[/\\]|\.netrc\b|\.pgpass\b"
    r"|\.git-credentials\b|\.docker[/\\]config\.json|\.kube[/\\]config|\.gnupg\b|/etc/shadow"
    r"|\bLogin Data\b|\bkey4\.db\b|\blogins\.json\b|\bcookies\.sqlite\b|\bwallet\.dat\b"
    r"|[/\\]Local State\b|\bNetwork[/\\]Cookies\b|\.config[/\\]gcloud|\.azure[/\\]|\.pypirc\b"
    r"|Library[/\\]Keychains|\.mozilla[/\\]firefox|Exodus[/\\]exodus\.wallet|\.electrum\b"
    r"|\bcredentials\.json\b.*\.claude|\.claude[/\\]\.credentials|/proc/self/environ"
    r"|\bLocal Storage[/\\]+leveldb|[/\\]+Telegram Desktop[/\\]+tdata|\.config[/\\]gh[/\\]hosts"
    r"|(?:^|[/\\])\.env(?:\.(?:local|prod|production))?$|\.npmrc\b|\.(?:bash|zsh)_history\b"
    r"|\.kdbx?\b"
)
# Addresses inside a cloud that hand out credentials.
METADATA_PLACE = re.compile(
    r"169\.254\.169\.254|metadata\.google\.internal|169\.254\.170\.2|100\.100\.100\.200"
)
# Programs that print a stored login or the whole environment.
SECRET_COMMAND = re.compile(
    r"\bgh\W{0,6}auth\W{0,6}token|\bprint-access-token|\bfind-(?:generic|internet)-password"
    r"|\baws\W{0,6}configure\W{0,6}(?:get|export-credentials)|^\W*(?:printenv|env)\W*$"
)
# A whole home or file system, and nothing narrower.
WHOLE_PLACE = re.compile(
    r"(?:~|/|/home|/Users|/root|[A-Za-z]:)?(?:[/\\]*(?:Desktop|Documents|Downloads|Pictures))?[/\\*]*"
)
# What a web framework was asked for: its text comes from another machine.
WEB_REQUESTS = frozenset({"flask.request", "bottle.request", "quart.request"})
# Windows that ask a person for a password.
PASSWORD_PROMPTS = frozenset({"getpass.getpass", "pwinput.pwinput", "stdiomask.getpass"})
# Names of settings that hold a credential.
SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|API_?KEY|ACCESS_?KEY|CREDENTIAL|PRIVATE_?KEY|SESSION_?KEY", re.IGNORECASE
)
# Files that run at each login or start, or that open the machine to others.
STARTUP_PLACE = re.compile(
    r"\.(?:bashrc|bash_profile|zshrc|zprofile|profile)\b|\.ssh[/\\]authorized_keys|/etc/sudoers"
    r"|/etc/(?:cron|rc\.local|systemd|ld\.so\.preload|profile)|LaunchAgents|LaunchDaemons"
    r"|\.config[/\\](?:autostart|systemd)|Start Menu[/\\]Programs[/\\]Startup"
    r"|\.claude[/\\](?:settings|agents|commands|hooks)|\.claude\.json|\.git[/\\]hooks[/\\]"
    r"|\.cursor[/\\](?:mcp\.json|rules)|\.(?:cursor|windsurf|cline)rules\b|\.vscode[/\\]tasks\.json"
    r"|\b(?:CLAUDE|AGENTS|GEMINI|SOUL)\.md\b|copilot-instructions\.md|claude_desktop_config\.json"
    r"|\.gemini[/\\]settings|\.codex[/\\](?:config|AGENTS)|\.mcp\.json\b"
    r"|\b(?:sitecustomize|usercustomize)\.py\b"
)


def is_network(path: str | None) -> bool:
    """Return whether a dotted name belongs to a module that reaches other machines."""
    if path is None or path in _LOCAL:
        return False
    return any(f"{path}.".startswith(f"{name}.") for name in NETWORK)


_BUILTINS = OPAQUE_BUILTINS | word_set(
    "__builtins__ __import__ bytearray bytes chr compile eval exec getattr globals input locals"
    " open setattr staticmethod vars"
)
_STARRED = PROCESSES | WIPERS | dotted_names("os", "remove unlink rename rmdir") | UNPICKLERS
_IMPORTERS = frozenset({"__import__", "importlib.import_module", "importlib.__import__"})
_NAMESPACES = frozenset({"vars", "globals", "locals"})
_MAX_DEPTH = 40


class PythonNames(NamedTuple):
    """The names of one file: imported names, own functions, and constants."""

    known: Mapping[str, str]
    own: frozenset[str]
    folder: ConstantFolder

    def dotted_path(self, node: ast.expr, depth: int = 0) -> str | None:
        """Return the dotted name that `node` stands for, or None if it is unknown."""
        if depth > _MAX_DEPTH:
            return None
        match node:
            case ast.Name(id=name):
                return self._name_path(name)
            case ast.Attribute(value=base, attr=attribute):
                return _join_member(self.dotted_path(base, depth + 1), attribute)
            case ast.NamedExpr(value=base) | ast.Await(value=base):
                return self.dotted_path(base, depth + 1)
            case ast.Subscript(value=base, slice=key):
                return self._item_path(base, key, depth)
            case _:
                return self._call_path(node, depth) if isinstance(node, ast.Call) else None

    def fold(self, node: ast.expr | None) -> FoldedConstant | None:
        """Return the constant value of `node`, or None if it is not constant."""
        return None if node is None else self.folder.fold(node)

    def is_disguised(self, node: ast.expr) -> bool:
        """Return whether the name of `node` was disguised."""
        match node:
            case ast.Attribute(value=base):
                return self.is_disguised(base)
            case ast.Call(args=[first, *rest]):
                key = self.fold(rest[0] if rest else first)
                return bool(key and key.hidden) or self.is_disguised(first)
            case ast.Subscript(slice=key):
                folded = self.fold(key)
                return bool(folded and folded.hidden)
            case _:
                return False

    def _name_path(self, name: str) -> str | None:
        if name in self.known:
            return self.known[name]
        return name if name in _BUILTINS and name not in self.own else None

    def _call_path(self, node: ast.Call, depth: int) -> str | None:
        path = self.dotted_path(node.func, depth + 1)
        if path in _IMPORTERS and node.args:
            return self._constant_text(node.args[0])
        if path == "getattr" and len(node.args) > 1:
            base = self.dotted_path(node.args[0], depth + 1)
            return _join_member(base, self._constant_text(node.args[1]))
        if path in _NAMESPACES:
            # The names of a module, as a mapping.
            module = self.dotted_path(node.args[0], depth + 1) if node.args else None
            return _join_member(module, "__dict__") if node.args else "__builtins__"
        return self._looked_up_path(node, path, depth)

    def _looked_up_path(self, node: ast.Call, path: str | None, depth: int) -> str | None:
        """Return the member that a method of a mapping or of an object returns by its name."""
        match node:
            case ast.Call(func=ast.Attribute(value=base, attr="get" | "__getitem__"), args=[key]):
                return self._item_path(base, key, depth)
            case ast.Call(func=ast.Attribute(attr="__getattribute__"), args=[*objects, key]):
                holder = objects[0] if objects else node.func.value  # type: ignore[attr-defined]
                return _join_member(self.dotted_path(holder, depth + 1), self._constant_text(key))
            case ast.Call(func=ast.Call(func=getter, args=[key]), args=[holder]) if (
                self.dotted_path(getter, depth + 1) == "operator.attrgetter"
            ):
                return _join_member(self.dotted_path(holder, depth + 1), self._constant_text(key))
            case ast.Call() if path == "staticmethod" and node.args:
                return self.dotted_path(node.args[0], depth + 1)
            case _:
                return None

    def _item_path(self, base: ast.expr, key: ast.expr, depth: int) -> str | None:
        if (item := self._listed_item(base, key)) is not None:
            return self.dotted_path(item, depth + 1)
        path, text = self.dotted_path(base, depth + 1), self._constant_text(key)
        if path == "sys.modules":
            return text
        if path is not None and path.endswith(".__dict__"):
            return _join_member(path.removesuffix(".__dict__"), text)
        return _join_member(path, text) if path in {"__builtins__", "builtins"} else None

    def _listed_item(self, base: ast.expr, key: ast.expr) -> ast.expr | None:
        """Return the item of a list or a table that the file writes out."""
        if isinstance(base, ast.Name):
            base = self.folder.find_constant(base.id) or base
        index = self.fold(key)
        match base, index and index.value:
            case ast.List(elts=items) | ast.Tuple(elts=items), int(number) if (
                -len(items) <= number < len(items)
            ):
                return items[number]
            case ast.Dict(keys=keys, values=items), str(text):
                named = zip(keys, items, strict=True)
                texts = ((self.fold(name), item) for name, item in named)
                return next((item for name, item in texts if name and name.value == text), None)
            case _:
                return None

    def _constant_text(self, node: ast.expr) -> str | None:
        folded = self.fold(node)
        return folded.value if folded and isinstance(folded.value, str) else None


def collect_names(tree: ast.Module, nodes: Iterable[ast.AST]) -> PythonNames:
    """Return the names of a file, from its tree and all nodes of it."""
    known: dict[str, str] = {}
    assigned: dict[str, list[ast.expr]] = {}
    for node in nodes:
        known.update(_imported_names(node))
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                assigned.setdefault(name, []).append(value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name):
                        assigned.setdefault(target.id, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                # Count it twice, so that the name is not a constant.
                assigned.setdefault(name, []).extend((value, value))
            case _:
                pass
    once = {name: values[0] for name, values in assigned.items() if len(values) == 1}
    own = frozenset(part.name for part in tree.body if isinstance(part, ast.FunctionDef))
    names = PythonNames(known, own, ConstantFolder(once))
    for name, value in once.items():
        if name not in known and (path := names.dotted_path(value)):
            known[name] = path
    return names


def _imported_names(node: ast.AST) -> dict[str, str]:
    match node:
        case ast.Import(names=aliases):
            pairs = ((alias.asname, alias.name) for alias in aliases)
            tops = ((short, name if short else name.partition(".")[0]) for short, name in pairs)
            return {short or name: name for short, name in tops}
        case ast.ImportFrom(module=str(module), names=aliases, level=0):
            if aliases[0].name == "*":
                return _starred_names(module)
            return {alias.asname or alias.name: f"{module}.{alias.name}" for alias in aliases}
        case _:
            return {}


def _starred_names(module: str) -> dict[str, str]:
    """Return the functions that matter among those that `from module import *` brings in."""
    paths = (path for path in _STARRED if path.startswith(f"{module}."))
    return {path.rpartition(".")[2]: path for path in paths}


def _join_member(base: str | None, name: str | None) -> str | None:
    if base is None or name is None:
        return None
    if base not in {"builtins", "__builtins__"}:
        return f"{base}.{name}"
    return base if name == "__dict__" else name

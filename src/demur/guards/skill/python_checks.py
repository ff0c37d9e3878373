"""One parsed Python file, and checks on imports, executed code and code that runs by itself."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, reduce
from operator import or_
from pathlib import PurePosixPath
from typing import Any

from demur.guards.skill.event import SkillConfig
from demur.guards.skill.rules import SkillHit
from demur.guards.static.python_flow import Origin, PythonDataFlow
from demur.guards.static.python_names import (
    EXECUTORS,
    NETWORK,
    PROCESSES,
    UNPICKLERS,
    PythonNames,
    collect_names,
    is_network,
)
from demur.guards.static.python_syntax import ParsedPython, parse_leniently
from demur.guards.static.source_text import SourceText, split_names
from demur.model.finding import Action

_MAX_QUOTE_LENGTH = 60


class PythonSource:
    """One file's tree, its names, and the flow of its values."""

    def __init__(self, document: SourceText, config: SkillConfig) -> None:
        self.document = document
        self.config = config
        parsed: ParsedPython = parse_leniently(document.text)
        self.tree = parsed.tree
        self.trouble = parsed.trouble
        self.nodes = tuple(ast.walk(parsed.tree))

    @cached_property
    def names(self) -> PythonNames:
        """The dotted names that names of the file stand for."""
        return collect_names(self.tree, self.nodes)

    @cached_property
    def flow(self) -> PythonDataFlow:
        """The origins of the file's values; computed on first use."""
        return PythonDataFlow(self.tree, self.names)

    @cached_property
    def calls(self) -> tuple[tuple[ast.Call, str | None], ...]:
        """Every call with the dotted name of its function, in the order of the file."""
        found = [node for node in self.nodes if isinstance(node, ast.Call)]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        return tuple((node, self.names.dotted_path(node.func)) for node in found)

    def hit(
        self, rule: str, node: ast.AST, detail: str, action: Action | None = None, **evidence: Any
    ) -> SkillHit:
        """Return a hit of a rule at `node`."""
        return SkillHit(rule, *self.document.node_span(node), detail, evidence, action=action)

    def join_origins(self, nodes: Iterable[ast.expr]) -> Origin:
        """Return the origins of `nodes` together."""
        return reduce(or_, map(self.flow.origin_of, nodes), Origin.PLAIN)

    def constant_text(self, node: ast.expr | None) -> str | None:
        """Return the constant text of `node`, or None."""
        folded = self.names.fold(node)
        return folded.value if folded and isinstance(folded.value, str) else None

    def quote(self, node: ast.AST) -> str:
        """Return the start of the node's source on one line, for a detail."""
        seen = self.hit("", node, "")
        text = " ".join(self.document.text[seen.start : seen.end][:200].split())
        return text if len(text) <= _MAX_QUOTE_LENGTH else f"{text[:_MAX_QUOTE_LENGTH]}…"


PythonCheck = Callable[[PythonSource], Iterator[SkillHit]]


_IMPORTERS = frozenset({"__import__", "importlib.__import__", "importlib.import_module"})
_POWERS: Mapping[str, tuple[str, ...]] = {
    "PY_IMPORT_PROCESS": ("subprocess", "pty", "commands", "pexpect", "plumbum", "sh", "fabric"),
    "PY_IMPORT_NETWORK": (*NETWORK, "http.server", "scapy", "smbprotocol", "twisted.internet"),
    "PY_IMPORT_NATIVE": ("ctypes", "_ctypes", "cffi", "_cffi_backend"),
    "PY_IMPORT_SPY": split_names(
        "browser_cookie3 keyboard pycookiecheat pynput pyscreenshot win32crypt"
    ),
}
_TOOLS = frozenset(
    {"base64", "binascii", "builtins", "codecs", "importlib", "marshal", "os", "pickle", "shutil"}
    | {"sys", "zlib"}
)
_RULES = {module: rule for rule, modules in _POWERS.items() for module in modules}


def find_imports(source: PythonSource) -> Iterator[SkillHit]:
    """Yield the first import of each risky module, and dynamic imports."""
    idle = _type_checking_nodes(source.tree)
    seen: set[str] = set()
    for node in source.nodes:
        if id(node) in idle:
            continue
        for module in _imported_modules(node):
            yield from _import_hit(source, node, module, seen)
    for call, path in source.calls:
        if path in _IMPORTERS and call.args:
            yield from _dynamic_import(source, call, seen)


def _type_checking_nodes(tree: ast.Module) -> frozenset[int]:
    """Return the nodes that only type checkers read."""
    return frozenset(
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and _last_name(node.test) == "TYPE_CHECKING"
        for part in node.body
        for inner in ast.walk(part)
    )


def _imported_modules(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=aliases):
            yield from (alias.name for alias in aliases)
        case ast.ImportFrom(module=str(module), names=aliases, level=0):
            # `from http import client` brings in `http.client`.
            yield from (f"{module}.{alias.name}" for alias in aliases)
        case _:
            pass


def _import_hit(
    source: PythonSource, node: ast.AST, module: str, seen: set[str]
) -> Iterator[SkillHit]:
    risky = _risky_module(module)
    if risky is None or risky in seen or source.config.allows_import(risky):
        return
    seen.add(risky)
    yield source.hit(_RULES[risky], node, f"imports `{risky}`", module=risky)


def _risky_module(module: str) -> str | None:
    """Return the risky module that `module` is or belongs to."""
    while module:
        if module in _RULES:
            return module
        module = module.rpartition(".")[0]
    return None


def _dynamic_import(source: PythonSource, call: ast.Call, seen: set[str]) -> Iterator[SkillHit]:
    folded = source.names.fold(call.args[0])
    module = source.constant_text(call.args[0])
    if folded is None:
        if Origin.REMOTE in source.flow.origin_of(call.args[0]):
            yield source.hit("PY_EXEC_REMOTE", call, "imports a module that a download names")
        else:
            yield source.hit("PY_IMPORT_DYNAMIC", call, f"imports by `{source.quote(call)}`")
    elif module is None:
        return
    elif folded.hidden and (_risky_module(module) or module.partition(".")[0] in _TOOLS):
        detail = f"imports `{module[:40]}` under a disguised name"
        yield source.hit("PY_HIDDEN_NAME", call, detail, technique="assembled module name")
    else:
        yield from _import_hit(source, call, module, seen)


_SAFE_LOADERS = ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader")
_HOLDERS = frozenset({"builtins", "__builtins__", "os", "subprocess", "sys", "importlib"})
_DANGEROUS = EXECUTORS | PROCESSES | {"__import__", "compile"}


def find_executions(source: PythonSource) -> Iterator[SkillHit]:
    """Yield every call that runs text as Python."""
    for call, path in source.calls:
        if path in EXECUTORS and call.args:
            yield _execution_hit(source, call, path)


def executed_text(source: PythonSource, call: ast.Call) -> str | None:
    """Return the literal text that a call runs as code, or None."""
    return source.constant_text(_code_expression(source, call))


def _code_expression(source: PythonSource, call: ast.Call) -> ast.expr:
    """Return the expression that holds the code, inside a `compile` if there is one."""
    first = call.args[0]
    match first:
        case ast.Call(func=function, args=[code, *_]):
            return code if source.names.dotted_path(function) == "compile" else first
        case _:
            return first


def _execution_hit(source: PythonSource, call: ast.Call, path: str) -> SkillHit:
    code = _code_expression(source, call)
    origin, folded = source.flow.origin_of(code), source.names.fold(code)
    quote = source.quote(call)
    if Origin.REMOTE in origin:
        return source.hit("PY_EXEC_REMOTE", call, f"runs what it downloads: `{quote}`")
    if Origin.DECODED in origin or (folded and folded.hidden and _was_decoded(code)):
        detail = f"runs decoded text: `{quote}`"
        return source.hit("PY_EXEC_DECODED", call, detail, technique="decoded and run")
    if folded is not None:
        return source.hit("PY_EXEC_LITERAL", call, f"runs a text by `{path}`: `{quote}`")
    return source.hit("PY_EXEC_DYNAMIC", call, f"runs text made at run time: `{quote}`")


def _was_decoded(node: ast.expr) -> bool:
    """Return whether a constant was reversed, rotated or built from numbers."""
    return any(
        isinstance(part, ast.Subscript)
        or (isinstance(part, ast.Name) and part.id == "chr")
        or (isinstance(part, ast.Attribute) and part.attr == "decode")
        for part in ast.walk(node)
    )


def find_hidden_names(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls whose function is reached by an assembled name."""
    reported: set[int] = set()
    for call, path in source.calls:
        if path in _DANGEROUS and source.names.is_disguised(call.func):
            reported.add(id(call.func))
            detail = f"reaches `{path}` by a disguised name"
            yield source.hit("PY_HIDDEN_NAME", call, detail, technique="assembled name")
        elif path == "getattr" and len(call.args) > 1 and id(call) not in reported:
            yield from _check_lookup(source, call)


def _check_lookup(source: PythonSource, call: ast.Call) -> Iterator[SkillHit]:
    holder = source.names.dotted_path(call.args[0])
    if holder not in _HOLDERS:
        return
    name = source.names.fold(call.args[1])
    if name is None and holder in {"builtins", "__builtins__"}:
        detail = f"picks a builtin at run time: `{source.quote(call)}`"
        yield source.hit("PY_EXEC_DYNAMIC", call, detail)
    elif name is not None and name.hidden:
        detail = f"reaches `{holder}.{str(name.value)[:40]}` by a disguised name"
        yield source.hit("PY_HIDDEN_NAME", call, detail, technique="assembled name")


def find_unpickling(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls that load data which can carry code."""
    for call, path in source.calls:
        if path not in UNPICKLERS or not call.args or _is_safe_load(source, call, path):
            continue
        origin = source.flow.origin_of(call.args[0])
        detail = f"reads data that can carry code: `{source.quote(call)}`"
        if Origin.REMOTE in origin:
            yield source.hit("PY_UNPICKLE_REMOTE", call, detail)
        elif Origin.DECODED in origin:
            literal = source.names.fold(call.args[0]) is not None
            action = Action.BLOCK if literal else None
            yield source.hit(
                "PY_UNPICKLE_DECODED", call, detail, action, technique="decoded and unpickled"
            )
        else:
            yield source.hit("PY_UNPICKLE", call, detail)


def _is_safe_load(source: PythonSource, call: ast.Call, path: str) -> bool:
    if path == "torch.load":
        return any(keyword.arg == "weights_only" for keyword in call.keywords)
    if not path.startswith("yaml.load"):
        return False
    loaders = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "Loader")]
    named = (source.names.dotted_path(loader) or _last_name(loader) for loader in loaders)
    return any(name.rpartition(".")[2] in _SAFE_LOADERS for name in named)


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


_AT_START = frozenset({"sitecustomize.py", "usercustomize.py"})
_SETUP = frozenset({"setup.py"})
_SETUP_CALLS = frozenset({"setuptools.setup", "distutils.core.setup"})
_RUNS = re.compile(r"^import[ \t].*$", re.MULTILINE)


def find_install_hooks(source: PythonSource) -> Iterator[SkillHit]:
    """Yield hooks of `setup.py` that act, and files that Python runs at every start."""
    name = PurePosixPath(source.document.path).name
    if name in _AT_START:
        yield source.hit("PY_STARTUP_FILE", source.tree, f"`{name}` runs at every start")
    if name in _SETUP:
        yield from _scan_setup(source)
    elif any(path in _SETUP_CALLS for _, path in source.calls):
        yield from _command_hooks(source)


def _scan_setup(source: PythonSource) -> Iterator[SkillHit]:
    yield from _command_hooks(source)
    inside = {
        id(part)
        for node in source.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in ast.walk(node)
    }
    for call, path in source.calls:
        if id(call) not in inside and is_network(path):
            yield source.hit("PY_INSTALL_HOOK", call, f"reaches out: `{source.quote(call)}`")
            return


def _command_hooks(source: PythonSource) -> Iterator[SkillHit]:
    """Yield the command classes that start programs, run text or use the network."""
    named = {
        part.id
        for call, _ in source.calls
        for keyword in call.keywords
        if keyword.arg == "cmdclass"
        for part in ast.walk(keyword.value)
        if isinstance(part, ast.Name)
    }
    paths = {id(call): path for call, path in source.calls}
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and node.name in named:
            called = (paths.get(id(part)) for part in ast.walk(node))
            if any(path in PROCESSES | EXECUTORS or is_network(path) for path in called):
                yield source.hit("PY_INSTALL_HOOK", node, f"`{node.name}` acts at installation")


def find_path_file_code(document: SourceText) -> Iterator[SkillHit]:
    """Yield the lines of a `.pth` file that Python runs."""
    for found in _RUNS.finditer(document.text):
        yield SkillHit("PY_STARTUP_FILE", *found.span(), "a line of a path file that is run")

"""Imports that give a file power over processes, the network, memory or what users type."""

import ast
from collections.abc import Iterator, Mapping

from demur.guards.skill.calls import NETWORK
from demur.guards.skill.flow import ValueOrigin
from demur.guards.skill.python_source import PythonSource
from demur.guards.skill.sighting import SkillHit

__all__ = ["find_imports"]

_IMPORTERS = frozenset({"__import__", "importlib.__import__", "importlib.import_module"})
_POWERS: Mapping[str, tuple[str, ...]] = {
    "PY_IMPORT_PROCESS": ("subprocess", "pty", "commands", "pexpect", "plumbum", "sh", "fabric"),
    "PY_IMPORT_NETWORK": (*NETWORK, "http.server", "scapy", "smbprotocol", "twisted.internet"),
    "PY_IMPORT_NATIVE": ("ctypes", "_ctypes", "cffi", "_cffi_backend"),
    "PY_IMPORT_SPY": (
        "browser_cookie3",
        "keyboard",
        "pycookiecheat",
        "pynput",
        "pyscreenshot",
        "win32crypt",
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
        if isinstance(node, ast.If) and _is_type_checking(node.test)
        for part in node.body
        for inner in ast.walk(part)
    )


def _is_type_checking(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return True
        case _:
            return False


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
    yield source.make_hit(_RULES[risky], node, f"imports `{risky}`", module=risky)


def _risky_module(module: str) -> str | None:
    """Return the risky module that `module` is or belongs to."""
    while module:
        if module in _RULES:
            return module
        module = module.rpartition(".")[0]
    return None


def _is_hideable(module: str) -> bool:
    """Return whether an author may want to hide the import of a module."""
    return _risky_module(module) is not None or module.partition(".")[0] in _TOOLS


def _dynamic_import(source: PythonSource, call: ast.Call, seen: set[str]) -> Iterator[SkillHit]:
    folded = source.names.fold(call.args[0])
    if folded is None:
        origin = source.flow.origin_of(call.args[0])
        if ValueOrigin.REMOTE in origin:
            yield source.make_hit("PY_EXEC_REMOTE", call, "imports a module that a download names")
        else:
            yield source.make_hit(
                "PY_IMPORT_DYNAMIC", call, f"imports by `{source.quote_source(call)}`"
            )
    elif folded.hidden and isinstance(folded.value, str) and _is_hideable(folded.value):
        detail = f"imports `{folded.value[:40]}` under a disguised name"
        yield source.make_hit("PY_HIDDEN_NAME", call, detail, technique="assembled module name")
    elif isinstance(folded.value, str):
        yield from _import_hit(source, call, folded.value, seen)

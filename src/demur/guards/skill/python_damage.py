"""Python that destroys, takes rights, or settles in where the machine starts."""

import ast
import re
from collections.abc import Iterator

from demur.guards.skill.calls import STARTUP_PLACE, WIPERS
from demur.guards.skill.python_source import PythonSource
from demur.guards.skill.sighting import SkillHit

__all__ = ["find_damage", "find_native_injection", "find_startup_writes"]

# A root, a home or a system folder, and nothing narrower.
_VITAL = re.compile(
    r"(?:/|~/?|/(?:bin|boot|etc|home|lib|opt|root|srv|usr|var|Users|System|Library)/?"
    r"|[A-Za-z]:[/\\]*(?:Windows|Users)?[/\\]*|\$HOME/?)\*?"
)
_HOMES = frozenset({"os.path.expanduser", "pathlib.Path.home", "Path.home"})
_RIGHTS = frozenset({"os.setuid", "os.seteuid", "os.setreuid", "os.setgid", "os.setresuid"})
_MEMORY = frozenset(
    {
        "CreateRemoteThread",
        "NtCreateThreadEx",
        "RtlMoveMemory",
        "VirtualAlloc",
        "VirtualAllocEx",
        "VirtualProtect",
        "WriteProcessMemory",
        "mprotect",
        "ptrace",
    }
)
_SET_ID = 0o6000


def find_damage(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls that would wipe a vital folder or take another user's rights."""
    for call, path in source.calls:
        if path in WIPERS and call.args and _is_vital(source, call.args[0]):
            yield source.make_hit(
                "PY_DESTROYS", call, f"wipes a vital folder: `{source.quote_source(call)}`"
            )
        elif path in _RIGHTS and [source.names.fold(arg) for arg in call.args[:1]] == [(0, False)]:
            yield source.make_hit(
                "PY_PRIVILEGE", call, f"becomes root: `{source.quote_source(call)}`"
            )
        elif path == "os.chmod" and len(call.args) > 1:
            mode = source.names.fold(call.args[1])
            if mode and isinstance(mode.value, int) and mode.value & _SET_ID:
                detail = f"lets a file run as its owner: `{source.quote_source(call)}`"
                yield source.make_hit("PY_PRIVILEGE", call, detail)


def _is_vital(source: PythonSource, node: ast.expr) -> bool:
    text = source.constant_text(node)
    if text is not None:
        return _VITAL.fullmatch(text) is not None
    match node:
        case ast.Call(func=function, args=args):
            path = source.names.dotted_path(function)
            return path in _HOMES and all(source.constant_text(arg) in {"~", "~/"} for arg in args)
        case _:
            return False


def find_startup_writes(source: PythonSource) -> Iterator[SkillHit]:
    """Yield writes to files that run at each login, or that let others in."""
    for call, path in source.calls:
        target = _written_target(call, path)
        if target is None:
            continue
        found = STARTUP_PLACE.search(source.names.folder.join_strings(target))
        if found:
            yield source.make_hit("PY_STARTUP", call, f"writes to `{found[0]}`", place=found[0])


def _written_target(call: ast.Call, path: str | None) -> ast.expr | None:
    """Return the expression that names the file which `call` writes to, or None."""
    if path in {"open", "io.open"} and call.args:
        modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
        writes = any(
            isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax+") for mode in modes
        )
        return call.args[0] if writes else None
    match call.func:
        case ast.Attribute(attr="write_text" | "write_bytes", value=base):
            return base
        case _:
            return None


def find_native_injection(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls into native memory as code injection makes them, the first of each name."""
    seen: set[str] = set()
    for call, _ in source.calls:
        match call.func:
            case ast.Attribute(attr=name) if name in _MEMORY and name not in seen:
                seen.add(name)
                yield source.make_hit("PY_NATIVE_INJECTION", call, f"calls `{name}` of the system")
            case _:
                pass

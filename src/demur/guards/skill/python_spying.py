"""Checks on what a Python file takes from the person at the machine, or does to their files.

They look for mechanisms: the stores of browsers' passwords and of wallets, pictures of the screen
or the camera, the clipboard, all files of a home, and mining for somebody else.
"""

import ast
import re
from collections.abc import Iterator

from demur.guards.skill.python_checks import PythonSource
from demur.guards.skill.rules import SkillHit
from demur.guards.static.python_flow import Origin
from demur.guards.static.python_names import WALKERS
from demur.model.finding import Action

# Where browsers, chat programs, wallets and systems keep logins, and how they are asked for.
_LOGIN_STORE = re.compile(
    r"\bLogin Data\b|\bpassword_value\b.{0,80}\bfrom logins\b|\bos_crypt\b|\blogins\.json\b"
    r"|\bencrypted_value\b.{0,80}\bfrom (?:moz_)?cookies\b|\bkey4\.db\b|Local Storage[/\\]+leveldb"
    r"|\bwallet\.dat\b|\bexodus\.wallet\b|[/\\.]electrum[/\\]+wallets|\bTelegram Desktop[/\\]+tdata"
    r"|Library[/\\]+Keychains|\bdump-keychain\b|\bfind-(?:generic|internet)-password\b",
    re.IGNORECASE | re.DOTALL,
)
_MINER = re.compile(r"\bstratum\+(?:tcp|ssl)://|\bxmrig\b|--donate-level\b|\bcpuminer\b")
_MAX_TEXT_LENGTH = 2_000
_REMOVERS = frozenset({"os.remove", "os.unlink", "os.rename", "os.replace", "shutil.move"})
_REMOVING_METHODS = frozenset({"unlink", "rename"})
_PASTES = frozenset({"pyperclip.paste", "clipboard.paste", "win32clipboard.GetClipboardData"})
_COPIES = frozenset({"pyperclip.copy", "clipboard.copy", "win32clipboard.SetClipboardText"})
_REGISTRY_WRITES = frozenset({"winreg.SetValueEx", "winreg.SetValue", "_winreg.SetValueEx"})
_RUN_KEY = re.compile(r"CurrentVersion\\+(?:Run|RunOnce|Policies\\+Explorer\\+Run)\b")


def find_stored_logins(source: PythonSource) -> Iterator[SkillHit]:
    """Yield the first text that names a store of logins, and the first that names a miner."""
    for rule, pattern, what in (
        ("PY_LOGINS_READ", _LOGIN_STORE, "names a store of logins"),
        ("PY_MINER", _MINER, "names a miner"),
    ):
        for text in _texts(source):
            found = pattern.search(str(text.value))
            if found:
                yield source.hit(rule, text, f"{what}: `{' '.join(found[0].split())[:40]}`")
                break


def _texts(source: PythonSource) -> Iterator[ast.Constant]:
    """Yield the texts of the file that are no docstrings."""
    alone = {id(node.value) for node in source.nodes if isinstance(node, ast.Expr)}
    for node in source.nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) not in alone and len(node.value) <= _MAX_TEXT_LENGTH:
            yield node


def find_encrypted_files(source: PythonSource) -> Iterator[SkillHit]:
    """Yield the encryption in a file that walks folders and removes or overwrites what it finds."""
    walks = any(path in WALKERS or _method(call) == "rglob" for call, path in source.calls)
    removes = any(
        path in _REMOVERS or _method(call) in _REMOVING_METHODS for call, path in source.calls
    )
    if not walks or not (removes or _overwrites(source)):
        return
    for call, _ in source.calls:
        if _method(call) == "encrypt":
            detail = f"encrypts files in their place: `{source.quote(call)}`"
            yield source.hit("PY_ENCRYPTS_FILES", call, detail)
            return


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _overwrites(source: PythonSource) -> bool:
    """Return whether bytes are written to a file that is read as well."""
    read: set[str] = set()
    written: set[str] = set()
    for call, path in source.calls:
        match call:
            case ast.Call(func=ast.Attribute(attr="read_bytes", value=base)):
                read.add(ast.dump(base))
            case ast.Call(func=ast.Attribute(attr="write_bytes", value=base)):
                written.add(ast.dump(base))
            case ast.Call(args=[name, ast.Constant(value=str(mode)), *_]) if path == "open":
                places = read if mode.startswith("r") and "+" not in mode else written
                places.add(ast.dump(name))
            case _:
                pass
    return not read.isdisjoint(written)


def find_clipboard_swaps(source: PythonSource) -> Iterator[SkillHit]:
    """Yield a loop that reads the clipboard and puts something else into it."""
    paths = {id(call): path for call, path in source.calls}
    for node in source.nodes:
        if isinstance(node, ast.While):
            called = {paths.get(id(part)) for part in ast.walk(node)}
            if called & _PASTES and called & _COPIES:
                yield source.hit("PY_CLIPBOARD", node, "replaces what is copied to the clipboard")
                return


def find_registry_starts(source: PythonSource) -> Iterator[SkillHit]:
    """Yield a value in the registry that Windows runs at each login, and new timed jobs."""
    for call, path in source.calls:
        if path == "crontab.CronTab":
            yield source.hit("PY_STARTUP", call, "changes the table of timed jobs")
            return
    if any(_RUN_KEY.search(str(text.value)) for text in _texts(source)):
        for call, path in source.calls:
            if path in _REGISTRY_WRITES:
                yield source.hit("PY_STARTUP", call, "writes a key that runs at each login")
                return


def surroundings_hit(source: PythonSource, call: ast.Call, content: Origin) -> SkillHit | None:
    """Return the hit for a call that sends what it took from the person or the machine."""
    quote = source.quote(call)
    if Origin.CAPTURE in content:
        detail = f"sends the screen, camera, sound or clipboard by `{quote}`"
        return source.hit("PY_CAPTURE_SENT", call, detail)
    if Origin.PERSONAL in content:
        return source.hit("PY_FILES_SENT", call, f"sends files of a whole home by `{quote}`")
    if Origin.HOST in content and _method(call) != "gethostbyname":
        # At the top of a file it runs on import; inside a function a program asks for it.
        action = None if id(call) in _top_calls(source) else Action.WARN
        return source.hit("PY_HOST_SENT", call, f"sends who and where it is by `{quote}`", action)
    return None


def _top_calls(source: PythonSource) -> frozenset[int]:
    """Return the calls that run when the file is imported."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    inside = {
        id(part)
        for node in source.nodes
        if isinstance(node, functions) or _is_main_block(node)
        for part in ast.walk(node)
    }
    return frozenset(id(call) for call, _ in source.calls if id(call) not in inside)


def _is_main_block(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case _:
            return False

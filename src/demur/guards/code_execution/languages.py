"""Tells from a text alone what would run it. Where two readings are likely, both count."""

import ast
import re

from demur.guards.code_execution.event import Language
from demur.guards.code_execution.python_code import parse_python

__all__ = ["detect_languages"]

_PYTHON = re.compile(
    r"(?m)^[ \t]*(?:import\s+\w|from\s+[\w.]+\s+import\s|def\s+\w+\s*\("
    r"|class\s+\w+|async\s+def\s|with\s.+:\s*$|for\s.+\sin\s.+:)"
    r"|[\w\])]\s*\(|^[ \t]*\w+[ \t]*=\s"
)
_PYTHON_NODES = (
    ast.Call,
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.For,
    ast.With,
)
_POWERSHELL = re.compile(
    r"(?i)\$env:|\b(?:get|set|new|add|remove|invoke|start|stop|import|out|write|test|clear|copy|enable|disable"
    r"|register|unregister|stop|restart|convertto|convertfrom)-[a-z]{3,}\b|\b(?:iex|iwr|irm)\b|\[(?:system\.|net\.|convert)"
    r"|(?m:^[ \t]*\$\w+[ \t]*=\s)|-(?:erroraction|outfile|usebasicparsing)\b"
)
_CMD = re.compile(
    r"(?i)%\w+%|(?:^|[\s\\\"&|])\w+\.exe\b|\b(?:reg|sc|net|schtasks|vssadmin|wmic|bcdedit|netsh|wevtutil|icacls|takeown"
    r"|del|rd|rmdir|copy|xcopy|robocopy|taskkill|certutil|bitsadmin|format)\s+(?:/|\\|hk|[a-z]:|\w+\s+(?:/|hk|\\)|shadow|delete|create)"
    r"|[a-z]:\\\\?\w|(?:^|\s)cmd\s+/[ck]\b"
)


def detect_languages(text: str) -> list[Language]:
    """Return the likely languages of `text`, at least one."""
    if _PYTHON.search(text) and _is_python(text):
        return [Language.PYTHON]
    found = []
    if _POWERSHELL.search(text):
        found.append(Language.POWERSHELL)
    if _CMD.search(text):
        found.append(Language.CMD)
    return [Language.SHELL, *found]


def _is_python(text: str) -> bool:
    """Whether `text` parses as Python, and holds more than names and numbers."""
    tree = parse_python(text)
    if tree is None or not tree.body:
        return False
    if any(isinstance(node, _PYTHON_NODES) for node in ast.walk(tree)):
        return True
    return any(
        isinstance(node, ast.Assign) and not _is_shell_assignment(node) for node in tree.body
    )


def _is_shell_assignment(node: ast.Assign) -> bool:
    """Whether an assignment may also be shell: no blanks around the equals sign."""
    target = node.targets[0]
    return node.value.col_offset - (target.end_col_offset or 0) == 1

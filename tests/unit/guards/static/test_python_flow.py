import ast

import pytest

from demur.guards.static.python_flow import BindingCollector, Origin, PythonDataFlow
from demur.guards.static.python_names import collect_names


def bound(text: str) -> set[tuple[str, str, str]]:
    """Return scope (without its line), name and value of each binding."""
    return {
        (binding.key.scope.partition(":")[0], binding.key.name, ast.unparse(binding.value))
        for binding in BindingCollector().collect_bindings(ast.parse(text))
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a = b = c", {("", "a", "c"), ("", "b", "c")}),
        ("a, (b, *c) = d", {("", "a", "d"), ("", "b", "d"), ("", "c", "d")}),
        ("a, b = 1, 2", {("", "a", "1"), ("", "b", "2")}),
        ("a.b['c'] = d", {("", "a", "d")}),
        ("self.a = b", {("", ".a", "b")}),
        ("a: int", set()),
        ("f()[0] = 1", set()),
        ("a.append(b)", {("", "a", "b")}),
        ("a.remove(b)", set()),
        ("def f():\n    return a", {("/f", "return", "a")}),
        ("def f():\n    return", set()),
        ("with a as b: pass", {("", "b", "a")}),
        ("with a: pass", set()),
    ],
)
def test_which_variable_takes_which_value(text: str, wanted: set[tuple[str, str, str]]) -> None:
    assert bound(text) == wanted


def test_of_two_functions_with_one_name_none_is_known() -> None:
    binder = BindingCollector()
    list(binder.collect_bindings(ast.parse("def f(): ...\ndef f(): ...\nasync def g(): ...")))

    assert binder.functions["f"] is None
    assert binder.functions["g"] is not None


def origin(text: str) -> Origin:
    """Return what the argument of the call of `sink` in `text` is made of."""
    tree = ast.parse(text)
    flow = PythonDataFlow(tree, collect_names(tree, tuple(ast.walk(tree))))
    [call] = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sink"
    ]
    return flow.origin_of(call.args[0])


@pytest.mark.parametrize(
    "text",
    [
        "import requests\nsink(requests.get('u').text)",
        "import requests\nx = requests.get('u')\ny = x.json()['a']\nsink(y)",
        "from urllib.request import urlopen\nwith urlopen('u') as r:\n    sink(r.read())",
        "import requests\nfor line in requests.get('u').iter_lines():\n    sink(line)",
        "import requests\nsink([x for x in requests.get('u').text])",
        "import requests\nx = []\nx.append(requests.get('u').text)\nsink(x)",
        "import requests\nx = {}\nx['a'] = requests.get('u').text\nsink(x)",
        "import requests\na, b = 1, requests.get('u')\nsink(b)",
        "import requests\na, *b = requests.get('u')\nsink(b)",
        "import requests\nx: str = requests.get('u').text\nsink(x)",
        "import requests\nx = ''\nx += requests.get('u').text\nsink(x)",
        "import requests\nif (x := requests.get('u')):\n    sink(x)",
        "import requests\ndef get():\n    return requests.get('u').text\nsink(get())",
        "import requests\ndef get(u):\n    yield requests.get(u)\nsink(list(get('u')))",
        "import requests\ndef use(a, *, b=1):\n    sink(b)\nuse(1, b=requests.get('u'))",
        "import requests\ndef use(a):\n    sink(a)\nuse(requests.get('u'))",
        (
            "import socket\nclass C:\n    def a(self):\n        self.s = socket.socket()\n"
            "    def b(self):\n        sink(self.s.recv(9))"
        ),
        (
            "import requests\nclass C:\n    def get(self):\n        return requests.get('u')\n"
            "    def b(self):\n        sink(self.get())"
        ),
        "import requests\nf = lambda: requests.get('u').text\nsink(f())",
        (
            "import httpx\nasync def f(c):\n    async with httpx.stream('GET', 'u') as r:\n"
            "        async for part in r:\n            sink(part)"
        ),
        "import requests\nsink(unknown(requests.get('u'), key=1))",
        "import requests\nsink(unknown(key=requests.get('u')))",
    ],
)
def test_a_download_is_followed(text: str) -> None:
    assert Origin.REMOTE in origin(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import base64\nsink(base64.b64decode(x))", Origin.DECODED),
        ("sink(bytes.fromhex(x).decode())", Origin.DECODED),
        ("sink(''.join(chr(n) for n in numbers))", Origin.DECODED),
        ("sink(''.join(map(chr, numbers)))", Origin.DECODED),
        ("sink(bytes(n ^ 7 for n in numbers))", Origin.DECODED),
        ("sink(cipher.decrypt(x))", Origin.DECODED),
        ("import os\nsink(dict(os.environ))", Origin.ENVIRONMENT),
        ("import os\nsink(os.environ['API_KEY'])", Origin.TOKEN),
        ("import os\nsink(os.getenv('GITHUB_TOKEN'))", Origin.TOKEN),
        ("import keyring\nsink(keyring.get_password('a', 'b'))", Origin.TOKEN),
        ("sink('~/.ssh/id_rsa')", Origin.SECRET_PLACE),
    ],
)
def test_each_origin_is_recognized(text: str, wanted: Origin) -> None:
    assert origin(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "sink(open('/home/me/.ssh/id_rsa').read())",
        "from pathlib import Path\nsink((Path.home() / '.aws' / 'credentials').read_text())",
        "import os\np = os.path.expanduser('~/.netrc')\nwith open(p) as f:\n    sink(f.read())",
        "import os\nsink(open(os.path.join(home, '.ssh', 'id_ed25519')).read())",
        "import sqlite3\nsink(sqlite3.connect('Default/Login Data'))",
    ],
)
def test_data_read_from_a_secret_place_is_secret(text: str) -> None:
    assert Origin.SECRET in origin(text)


@pytest.mark.parametrize(
    "text",
    [
        "sink('text')",
        "sink(len(secret))",
        "import os\nsink(os.environ['HOME'])",
        "import os\nsink(os.environ.get(name))",
        "import requests\nsink(requests.get('u') == 1)",
        "import requests\nsink(len(requests.get('u').text))",
        "import hashlib\nsink(hashlib.sha256(open('/etc/shadow').read()).hexdigest())",
        "import requests\ndef get():\n    return 1\nx = requests.get('u')\nsink(get())",
        "import requests\ndef get():\n    x = requests.get('u')\n    return 2\nx = 1\nsink(x)",
        "sink('-'.join(names))",
        "import socket\nsink(socket.socketpair())",
        "def use(a):\n    sink(a)\nuse(**given)",
    ],
)
def test_plain_data_stays_plain(text: str) -> None:
    assert origin(text) == Origin.PLAIN


def test_writing_to_a_secret_place_reads_nothing() -> None:
    assert Origin.SECRET not in origin("sink(open('/home/me/.ssh/config', 'w'))")
    assert Origin.SECRET in origin("sink(open('/home/me/.ssh/config', 'rb'))")


def test_of_two_functions_with_one_name_none_is_followed() -> None:
    text = "import requests\ndef get():\n    return 1\ndef get():\n    return 2\nsink(get())"

    assert origin(text) == Origin.PLAIN


def test_a_value_is_followed_through_a_few_functions_and_not_without_end() -> None:
    chain = "".join(f"def f{n}(a):\n    return f{n - 1}(a)\n" for n in range(1, 40))
    start = "import requests\ndef f0(a):\n    return a\n"

    assert Origin.REMOTE in origin(f"{start}{chain}sink(f2(requests.get('u')))")
    assert origin(f"{start}{chain}sink(f39(requests.get('u')))") == Origin.PLAIN


def test_a_deep_expression_has_an_end() -> None:
    assert origin("sink(" + "f(" * 90 + "1" + ")" * 90 + ")") == Origin.PLAIN

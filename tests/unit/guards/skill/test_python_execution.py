import pytest
from skills import actions, blocks, seen

from demur.codes.reason_code import ReasonCode
from demur.model.finding import Action

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
def test_what_may_be_meant_is_asked_about(text: str, rule: str, action: Action) -> None:
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

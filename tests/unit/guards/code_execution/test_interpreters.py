"""Which part of a call is code, and in what language."""

import pytest

from demur.guards.code_execution.call import ProgramCall
from demur.guards.code_execution.interpreters import find_code
from demur.guards.code_execution.value import CommandArg


def run(*words: str) -> list[tuple[str, str, str]]:
    args = tuple(CommandArg(word, 0, 0) for word in words[1:])
    found = find_code(ProgramCall(words[0], CommandArg(words[0], 0, 0), args))
    return [
        (
            code.language.value,
            code.text.text if code.text else "",
            code.file.text if code.file else "",
        )
        for code in found
    ]


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("ls",), []),
        (("sh",), [("shell", "", "")]),
        (("sh", "-"), [("shell", "", "")]),
        (("sh", "-s", "x"), [("shell", "", "")]),
        (("sh", "-c", "a"), [("shell", "a", "")]),
        (("sh", "-c"), []),
        (("bash", "-o", "pipefail", "-ec", "a"), [("shell", "a", "")]),
        (("bash", "--norc", "x.sh"), [("shell", "", "x.sh")]),
        (("bash", "--", "x.sh"), [("shell", "", "x.sh")]),
        (("bash", "--version"), []),
        (("source", "x"), [("shell", "", "x")]),
        ((".",), []),
        (("python3.11", "-c", "a"), [("python", "a", "")]),
        (("python", "-Bc", "a"), [("python", "", "a")]),
        (("python", "-ca"), [("python", "a", "")]),
        (("python", "x.py", "-c", "a"), [("python", "", "x.py")]),
        (("python",), [("python", "", "")]),
        (("python", "-m", "x"), []),
        (("pyright", "-c"), []),
        (("perl", "-e", "a", "-e", "b"), [("other", "a", ""), ("other", "b", "")]),
        (("perl", "x.pl"), [("other", "", "x.pl")]),
        (("node", "-p", "a"), [("other", "a", "")]),
        (("awk", "-F", ":", "a", "f"), [("other", "a", "")]),
        (("awk",), []),
        (("awk", "-f", "x"), []),
        (("pwsh", "-NoProfile", "-Command", "a"), [("powershell", "a", "")]),
        (("powershell", "-ExecutionPolicy", "Bypass", "-c", "a", "b"), [("powershell", "a b", "")]),
        (("powershell", "-enc", "a"), [("powershell", "a", "")]),
        (("powershell", "-ec", "a"), [("powershell", "a", "")]),
        (("powershell", "-File", "x.ps1"), [("powershell", "", "x.ps1")]),
        (("powershell", "a"), [("powershell", "a", "")]),
        (("powershell",), [("powershell", "", "")]),
        (("cmd", "/c", "a"), [("cmd", "a", "")]),
        (("cmd", "/q", "/c", "a", "b"), [("cmd", "a b", "")]),
        (("cmd", "/ca", "b"), [("cmd", "a b", "")]),
        (("cmd", "/c"), [("cmd", "", "")]),
        (("cmd",), []),
    ],
)
def test_code_is_found(words: tuple[str, ...], want: list[tuple[str, str, str]]) -> None:
    assert run(*words) == want

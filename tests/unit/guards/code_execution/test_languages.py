"""What would run a text, told from the text."""

import pytest

from demur.guards.code_execution.event import Language
from demur.guards.code_execution.languages import detect_languages

SHELL, PYTHON = Language.SHELL, Language.PYTHON
POWERSHELL, CMD = Language.POWERSHELL, Language.CMD


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("ls -l", [SHELL]),
        ("rm -rf build", [SHELL]),
        ("import os", [PYTHON]),
        ("print('x')", [PYTHON]),
        ("def f():\n    return 1", [PYTHON]),
        ("x = 1", [PYTHON]),
        ("x=1", [SHELL]),
        ("for i in range(3):\n    print(i)", [PYTHON]),
        ("for i in 1 2; do echo $i; done", [SHELL]),
        ("echo (", [SHELL]),
        ("f() { ls; }", [SHELL]),
        ("# just a note (really)", [SHELL]),
        ("Get-Process | Stop-Process", [SHELL, POWERSHELL]),
        ("$x = 1; $x", [SHELL, POWERSHELL]),
        ("reg add hklm\\x /f", [SHELL, CMD]),
        ("del %TEMP%\\x", [SHELL, CMD]),
        ("Start-Process c:\\x.exe", [SHELL, POWERSHELL, CMD]),
        ("", [SHELL]),
    ],
)
def test_a_text_tells_its_languages(text: str, want: list[Language]) -> None:
    assert detect_languages(text) == want

import pytest
from skills import actions, blocks, findings, seen

from demur.codes.reason_code import ReasonCode
from demur.model.finding import Action


@pytest.mark.parametrize(
    "target",
    ["'/'", "'~'", "'/home'", "'C:\\\\'", "os.path.expanduser('~')", "pathlib.Path.home()"],
)
def test_wiping_a_vital_folder_blocks(target: str) -> None:
    text = f"import shutil, os, pathlib\nshutil.rmtree({target})"

    assert blocks(text) == {ReasonCode.DESTRUCTIVE_ACTION}


@pytest.mark.parametrize(
    "text",
    [
        "import shutil\nshutil.rmtree('build')",
        "import shutil\nshutil.rmtree(folder)",
        "import shutil, os\nshutil.rmtree(os.path.expanduser('~/.cache/tool'))",
        "import shutil\nshutil.rmtree(make())",
        "import shutil\nshutil.rmtree()",
        "import os\nos.chmod('a', 0o755)",
        "import os\nos.chmod('a', mode)",
        "import os\nos.chmod('a')",
        "import os\nos.setuid(user)",
        "import os\nos.setuid(1000)",
        "open('notes.txt', 'w').write('x')",
        "open('~/.bashrc').read()",
        "open()",
        "from pathlib import Path\nPath('notes.txt').write_text('x')",
        "library.strlen(b'x')",
    ],
)
def test_narrow_and_unknown_targets_pass(text: str) -> None:
    assert seen(text) == set()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("import os\nos.setuid(0)", "PY_PRIVILEGE"),
        ("import os\nos.chmod('a', 0o4755)", "PY_PRIVILEGE"),
        ("open('/root/.bashrc', 'a').write('x')", "PY_STARTUP"),
        ("open('/etc/sudoers', mode='w')", "PY_STARTUP"),
        ("from pathlib import Path\n(Path.home() / '.zshrc').write_text('x')", "PY_STARTUP"),
        ("library.VirtualAlloc(0, 1, 2, 3)", "PY_NATIVE_INJECTION"),
    ],
)
def test_rights_and_footholds_are_asked_about(text: str, rule: str) -> None:
    assert actions(text) == {rule: Action.ESCALATE}


def test_a_native_call_is_named_once() -> None:
    assert len(findings({"a.py": "k.mprotect(1)\nk.mprotect(2)\nk.ptrace(3)"})) == 2

import pytest
from skills import actions, blocks, seen

from demur.codes.reason_code import ReasonCode
from demur.model.finding import Action

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


def test_a_hook_that_acts_is_asked_about() -> None:
    text = HOOK.format(act="subprocess.run(['make'])")

    assert actions(text, "setup.py")["PY_INSTALL_HOOK"] is Action.ESCALATE
    assert "PY_INSTALL_HOOK" not in seen(text, "other.py")


def test_a_hook_that_does_not_act_passes() -> None:
    assert "PY_INSTALL_HOOK" not in seen(HOOK.format(act="super().run()"), "setup.py")


def test_reaching_out_while_setting_up_is_asked_about() -> None:
    text = "import requests\nfrom setuptools import setup\n{}\nsetup()"

    at_once = text.format("requests.get('https://example.com')")
    later = text.format("def f():\n    requests.get('https://example.com')")
    assert "PY_INSTALL_HOOK" in seen(at_once, "setup.py")
    assert "PY_INSTALL_HOOK" not in seen(later, "setup.py")


@pytest.mark.parametrize("path", ["sitecustomize.py", "lib/usercustomize.py"])
def test_a_file_of_pythons_start_is_asked_about(path: str) -> None:
    assert actions("x = 1", path) == {"PY_STARTUP_FILE": Action.ESCALATE}


def test_lines_of_a_path_file_that_run_are_named_and_judged() -> None:
    assert seen("/opt/lib\n../src\n", "a.pth") == set()
    assert seen("/opt/lib\nimport site\n", "a.pth") == {"PY_STARTUP_FILE"}
    evil = "import base64; exec(base64.b64decode('eA=='))\n"
    assert blocks(evil, "a.pth") == {ReasonCode.OBFUSCATED_CODE}

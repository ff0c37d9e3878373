"""Hands code to the reader of its language."""

from demur.guards.code_execution.call import Sight
from demur.guards.code_execution.host import DEEPEST, Frame, Host
from demur.guards.code_execution.interpreters import Tongue
from demur.guards.code_execution.other_code import read_other
from demur.guards.code_execution.powershell import read_powershell
from demur.guards.code_execution.prompt import read_prompt
from demur.guards.code_execution.python_code import read_python
from demur.guards.code_execution.value import Arg

__all__ = ["read_code"]

_READERS = {
    Tongue.PYTHON: read_python,
    Tongue.POWERSHELL: read_powershell,
    Tongue.CMD: read_prompt,
    Tongue.OTHER: read_other,
}


def read_code(tongue: Tongue, arg: Arg, host: Host, frame: Frame) -> None:
    """Judge `arg` as code in `language`."""
    if frame.depth >= DEEPEST:
        host.see(Sight("NESTED_TOO_DEEP"), arg.start, arg.end, "", frame)
    elif tongue is Tongue.SHELL:
        host.shell(arg, frame)
    else:
        _READERS[tongue](arg, host, frame)
